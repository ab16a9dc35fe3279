"""Lane: the ordered way out of one thread, and the subthreads that its calls need.

What can be tried again is tried again unchanged, under the same keys (6.2); what the server will
never take is replaced by a marker, so that one bad event does not hold up an answer. A run that
the server refuses as such is given up, and ThreadActor is told.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from actors.census import Census
from actors.events import Draft
from actors.messages import Landed, Opened, RunRefused, ThreadInbox
from actors.pending import MOST_CHARS, Pending, settles
from actors.ports import Journal, Keyed, Refused, ThreadLog, Unavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_S = 0.1
"""A run appends deltas at most ten times a second (5.3, rule 5)."""
BACKOFF_S, BACKOFF_CAP_S = 0.5, 30.0
EVENT_FAULTS = (400, 413, 422)
"""Statuses that blame what an event says, not who says it or where."""
UNAUTHENTICATED, EPOCH_CHANGED = 401, "epoch_changed"
"""These concern the whole bot: the socket finds out too, and ends what has to end."""

Placed = Callable[[str, str, str], None]
"""Is told a call, its subthread and the thread that the call is on."""


class Lane:
    """Owns what waits to be appended to one thread; `tell` goes to ThreadActor.

    `open` may come after drafts: it tells the thread, and which thread is above it.
    """

    def __init__(
        self,
        log: ThreadLog,
        journal: Journal,
        tell: trio.MemorySendChannel[ThreadInbox],
        placed: Placed,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._thread_id = ""
        self._log, self._journal, self._tell = log, journal, tell
        self._placed, self._jitter = placed, jitter
        self._landed: list[str] = []
        """Keys that the journal still holds, for its next write to let go of."""
        self._pending = Pending()
        self._moving = trio.Lock()
        """Held while events go on record or come back, so that what is away is there."""
        self._changed = trio.Event()
        self._opened = trio.Event()
        self._closing = self._is_of_one_run = False
        self._not_before = 0.0
        self._unborn: str | None = None
        """The run whose `run_started` was refused: its parts would be a bare message (5.4)."""

    @property
    def chars(self) -> int:
        """How much waits in memory, beside what is in hand."""
        return self._pending.chars

    def statistics(self) -> Census:
        """Return what is held of the way out."""
        pending = self._pending
        return Census(events=len(pending), keys=pending.keys + len(self._landed))

    def open(self, thread_id: str, parent_id: str | None = None) -> None:
        """Say where it leads; `parent_id` is the thread of the call that opened it."""
        self._thread_id, self._is_of_one_run = thread_id, parent_id is not None
        self._pending.parent_id = parent_id or ""
        self._opened.set()

    def close(self) -> None:
        """Nothing more comes: `run` ends once all is appended."""
        self._closing = True
        self._wake()

    async def add(self, drafts: tuple[Draft, ...]) -> None:
        """Queue drafts; waits for the local store only, when too much waits in memory."""
        self._pending.add(drafts)
        if self._pending.chars > MOST_CHARS and self._opened.is_set():
            await self._put_away()
        self._wake()

    async def run(self) -> None:
        """Append what comes, in order, until closed and all is appended, or until cancelled."""
        await self._opened.wait()
        while await self._due():
            self._not_before = trio.current_time() + FLUSH_S
            await self._take_back()
            await self._open_next()
            refused = await self._append(self._pending.hand_out())
            batch = self._pending.landed()
            if refused is not None:
                await self._give_up(batch[0].draft, refused)
            self._landed += [keyed.key for keyed in batch]
            for keyed in batch:
                if keyed.draft.type == "run_finished":
                    await self._let_go(keyed.draft)
                    await self._tell.send(Landed(keyed.draft.run_id))
                    self._closing |= self._is_of_one_run

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _put_away(self) -> None:
        async with self._moving:
            await self._journal.keep(self._thread_id, self._pending.put_away())

    async def _take_back(self) -> None:
        async with self._moving:
            if keys := self._pending.needs():
                self._pending.take_back(await self._journal.recall(self._thread_id, keys))

    async def _due(self) -> bool:
        """Return when a batch should leave; False when none will come any more.

        What people wait for leaves at once, deltas a little after the batch before them.
        """
        while not len(self._pending):
            if self._closing:
                return False
            await self._changed.wait()
        with trio.move_on_at(self._not_before):
            while not (self._pending.urgent or self._closing):
                await self._changed.wait()
        return True

    async def _open_next(self) -> None:
        """Have the subthread that what leaves next needs, if it needs one."""
        opens = self._pending.opens()
        if opens is None:
            return
        call_id, key = opens.call.tool_call_id, f"{opens.run_id}/{opens.call.tool_call_id}"
        child_id, refused = self._thread_id, None
        try:
            child_id = await self._persist(
                lambda: self._log.open_subthread(self._thread_id, key, opens.run_id, opens.call)
            )
        except Refused as error:
            refused = error.code
            logger.warning("no subthread for call %s: %s", call_id, error)
        self._pending.opened(None if refused else child_id)
        await self._tell.send(Opened(call_id, child_id, refused))
        self._placed(call_id, child_id, self._thread_id)

    async def _append(self, batch: list[Keyed]) -> Refused | None:
        """Return None when the batch is on the server, else why it is lost."""
        kept = list[Keyed]()
        while batch and batch[0].draft.run_id != self._unborn:
            if batch != kept:
                await self._journal.keep(self._thread_id, batch, self._landed)
                self._landed.clear()
                kept = batch
            try:
                await self._persist(partial(self._log.append, self._thread_id, batch))
            except Refused as refused:
                if not self._mend(batch, refused):
                    return refused
                batch = self._pending.hand_out()
            else:
                break
        return None

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what a call does, repeated while that may help. Raises Refused."""
        attempt = 0
        while True:
            try:
                return await call()
            except Unavailable as unavailable:
                await self._wait(unavailable.retry_after_s, attempt, unavailable)
            except Refused as refused:
                if not _is_of_the_bot(refused):
                    raise
                await self._wait(None, attempt, refused)
            attempt += 1

    async def _let_go(self, last: Draft) -> None:
        """Have the journal let go of what is over; settling does that for the run it settles."""
        rest, own = self._landed, f"{last.run_id}/"
        if settles(last):
            rest = [key for key in rest if not key.startswith(own)]
        if rest:
            await self._journal.keep(self._thread_id, (), rest)
        self._landed.clear()

    async def _give_up(self, first: Draft, refused: Refused) -> None:
        if first.type == "run_started":
            self._unborn = first.run_id
        await self._tell.send(RunRefused(first.run_id, refused.code))

    async def _wait(self, retry_after_s: float | None, attempt: int, cause: Exception) -> None:
        backoff_s = min(BACKOFF_S * 2 ** min(attempt, 10), BACKOFF_CAP_S) * self._jitter()
        wait_s = backoff_s if retry_after_s is None else retry_after_s
        ids = {"thread_id": self._thread_id}  # that the server is away, the log says once for all
        logger.debug("cannot append, again in %.1f s: %s", wait_s, cause, extra=ids)
        await trio.sleep(wait_s)

    def _mend(self, batch: list[Keyed], refused: Refused) -> bool:
        """Change the batch in hand so that it may be tried again; False when it is lost."""
        ids = {"thread_id": self._thread_id, "run_id": batch[0].draft.run_id}
        logger.error("append refused: %s (event %s)", refused, refused.index, extra=ids)
        if refused.status not in EVENT_FAULTS:
            return False
        if refused.index is None and len(batch) > 1:
            self._pending.split()
            return True
        index = refused.index or 0
        return index < len(batch) and self._pending.mend(index, refused.code)


def _is_of_the_bot(refused: Refused) -> bool:
    return refused.status == UNAUTHENTICATED or refused.code == EPOCH_CHANGED
