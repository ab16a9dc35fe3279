"""Consumer cursors as the edge sees them (10): taken at once, written each second."""

from collections.abc import Callable

import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import consumer_cursors
from scuba.server.store.changes import Caller
from scuba.server.store.consumer_cursors import CursorKey, Mark
from scuba.server.store.engine import Engine
from scuba.server.store.ids import moment
from scuba.server.store.unwritten import PERIOD_S, Unwritten
from scuba.server.store.ways import Ways

MOST_WAITING = 10_000
"""Cursors in memory at a time; what comes beyond waits for its own write."""
AT_ONCE = 500
"""Cursors in one write, so that no append waits long behind it."""
CLOSE_S = 5.0


class Consumers(Ways):
    """Keeps in memory only cursors that the store has an older mark of.

    `run` writes them and is the one task that does; whoever starts it calls `aclose` before the
    engine closes. A crash costs the moves of a second, and nobody recovers from a cursor.
    """

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        super().__init__(engine)
        self._now_ms = now_ms
        self._unwritten = Unwritten()
        self._news = trio.Event()
        self._life = trio.CancelScope()

    async def put(self, caller: Caller, thread_id: str, consumer: str, seq: int) -> int:
        """Move a cursor of the caller, never back. Returns where it stands.

        Raises Problem 404, 409 `future_cursor` or `limit_reached`.
        """
        key = CursorKey(thread_id, caller.id, consumer)
        before = self._waiting_seq(key)  # it may be stored, and gone from here, while we read
        stored = await self._read(consumer_cursors.check, caller, key, seq)
        if stored is None or len(self._unwritten) >= MOST_WAITING:
            self._unwritten.note_written(key, trio.current_time())
            self._news.set()  # for that to be forgotten
            stored = await self._write(consumer_cursors.begin, caller, key, seq)
        held = max(before, stored, self._waiting_seq(key))
        if seq <= held:
            return held
        self._unwritten.put(key, Mark(seq, moment(self._now_ms())))
        self._news.set()
        return seq

    async def listing(
        self, caller: Caller, thread_id: str, *, limit: int, after: str | None
    ) -> tuple[list[wire.ConsumerCursor], str | None]:
        """Return a page of a thread's cursors, as new as this server has them."""
        items, more = await self._read(
            consumer_cursors.listing, caller, thread_id, limit=limit, after=after
        )
        return [self._newest(thread_id, item) for item in items], more

    async def run(self) -> None:
        """Write what waits, once a second while there is something, until `aclose`."""
        with self._life:
            while True:
                await self._news.wait()
                await trio.sleep(PERIOD_S)
                self._news = trio.Event()
                await self._write_due()
                if len(self._unwritten) or self._unwritten.recent:
                    self._news.set()

    async def aclose(self) -> None:
        """End `run`, and write what waits, within `CLOSE_S`."""
        self._life.cancel()
        with trio.move_on_after(CLOSE_S, shield=True):
            if len(self._unwritten):
                await self._keep(self._unwritten.take_all())

    async def _write_due(self) -> None:
        while due := self._unwritten.take(trio.current_time(), AT_ONCE):
            if not await self._keep(due):
                return

    async def _keep(self, marks: list[tuple[CursorKey, Mark]]) -> bool:
        """Write marks; return whether that was done. They wait again when the store cannot."""
        try:
            await self._engine.write(lambda w: consumer_cursors.keep(w, marks))
        except Problem as problem:
            if problem.status != 503:
                raise
            return False
        self._unwritten.settle(marks)
        return True

    def _waiting_seq(self, key: CursorKey) -> int:
        waiting = self._unwritten.get(key)
        return 0 if waiting is None else waiting.seq

    def _newest(self, thread_id: str, item: wire.ConsumerCursor) -> wire.ConsumerCursor:
        waiting = self._unwritten.get(CursorKey(thread_id, item.principal_id, item.consumer))
        if waiting is None or waiting.seq <= item.seq:
            return item
        return wire.ConsumerCursor(
            principal_id=item.principal_id,
            consumer=item.consumer,
            seq=waiting.seq,
            updated_at=waiting.updated_at,
        )
