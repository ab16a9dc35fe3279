"""What other servers on the same database commit, told to this one's listeners in order (16.4).

Every server tells its listeners every change in the order of the commits, own ones and others'.
So what follows a revocation in the log is told after it, on every server.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import trio
from outcome import Outcome

from scuba.server.store import change_log
from scuba.server.store.change_log import Batch
from scuba.server.store.changes import Change, Missed
from scuba.server.store.database import Broken, Tx

logger = logging.getLogger(__name__)

POLL_S = 1.0
"""What a lost wake-up costs at most."""
TRIM_S = 60.0
"""How often a server that writes forgets what is old."""


class Ear(Protocol):
    """Hears of others' commits from its making on. Only `since` blocks; it may be left alone."""

    @property
    def began_at(self) -> int:
        """Return the number of the newest batch when it began to listen."""
        ...

    def wake_up(self) -> int | None:
        """Return what becomes readable when there is a wake-up; None while it hears nothing."""
        ...

    def woken(self, server: str) -> bool:
        """Return whether there was a wake-up from another server than this one."""
        ...

    def since(self, after: int) -> list[Batch]:
        """Return the batches after a number. Blocks. Raises Broken; the next call tries anew."""
        ...

    def close(self) -> None:
        """Listen no longer."""
        ...


class Sealing:
    """The last step of one own transaction: notes what it changed, reads what came before it."""

    def __init__(
        self, server: str, seen: int, changed: Callable[[Sequence[Outcome[object]]], list[Change]]
    ) -> None:
        self._server, self._seen, self._changed = server, seen, changed
        self.trims = False
        self.before: list[Batch] = []
        self.seq: int | None = None
        """The number of the transaction; None when it changed nothing that is told."""

    def __call__(self, tx: Tx, outcomes: Sequence[Outcome[object]]) -> None:
        """Note the changes of the writes that succeeded. In a worker thread; anew for a repeat."""
        self.seq, self.before = None, []
        changes = self._changed(outcomes)
        if not changes:
            return
        self.seq = change_log.note(tx, self._server, changes)
        if self.seq > self._seen + 1:
            self.before = change_log.since(tx, self._seen, self.seq)
        if self.trims:
            change_log.trim(tx, self.seq)


class News:
    """Where this server stands in the log of changes. `run` follows the others."""

    def __init__(self, ear: Ear, tell: Callable[[Iterable[Change]], None]) -> None:
        self._ear, self._tell = ear, tell
        self.server = secrets.token_hex(8)
        """What this server's batches are signed with."""
        self._seen = ear.began_at
        self._committing: trio.Event | None = None
        """Set when the own transaction that is running has ended."""
        self._trimmed_at = trio.current_time()
        self._deaf = False

    # --- own commits ---------------------------------------------------------------------------

    def begin(self, changed: Callable[[Sequence[Outcome[object]]], list[Change]]) -> Sealing:
        """Return the last step of a transaction that is about to begin."""
        self._committing = trio.Event()
        sealing = Sealing(self.server, self._seen, changed)
        if trio.current_time() > self._trimmed_at + TRIM_S:
            self._trimmed_at = trio.current_time()
            sealing.trims = True
        return sealing

    def committed(self, sealing: Sealing) -> None:
        """Tell what came before it; its own changes are told by the caller, right after."""
        if sealing.seq is None:
            return
        self._take(sealing.before)
        if self._seen < sealing.seq - 1:
            self._tell([Missed()])
        self._seen = max(self._seen, sealing.seq)

    def ended(self) -> None:
        """Note that no own transaction is running; an uncertain one is heard of like others'."""
        if self._committing is not None:
            self._committing.set()
            self._committing = None

    # --- others' commits -----------------------------------------------------------------------

    async def run(self) -> None:
        """Tell what others commit until cancelled; then listen no longer."""
        try:
            while True:
                await self._wait()
                try:
                    while await self.catch_up():
                        pass
                except Broken as error:
                    self._note_deaf(str(error))
                else:
                    self._note_hearing()
        finally:
            self._ear.close()

    async def catch_up(self) -> bool:
        """Tell what is there; return whether there may be more. Raises Broken."""
        batches = await trio.to_thread.run_sync(self._ear.since, self._seen, abandon_on_cancel=True)
        committing = self._committing
        if not self._take(batches) and committing is not None:
            await committing.wait()
        return bool(batches)

    async def _wait(self) -> None:
        with trio.move_on_after(POLL_S):
            while (readable := self._ear.wake_up()) is not None:
                await trio.lowlevel.wait_readable(readable)
                if self._ear.woken(self.server):
                    return
            await trio.sleep_forever()

    def _take(self, batches: Iterable[Batch]) -> bool:
        """Tell batches not told yet; return False where it must stop for an own commit."""
        for batch in batches:
            if batch.seq <= self._seen:
                continue
            if batch.server == self.server and self._committing is not None:
                return False
            if batch.seq > self._seen + 1:
                self._tell([Missed()])
            self._seen = batch.seq
            self._tell(batch.changes)
        return True

    def _note_deaf(self, why: str) -> None:
        if not self._deaf:
            logger.warning("cannot hear of other servers' commits: %s", why)
        self._deaf = True

    def _note_hearing(self) -> None:
        if self._deaf:
            logger.info("hears of other servers' commits again")
        self._deaf = False
