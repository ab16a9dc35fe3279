"""Group commit: everything that waits is one transaction, and nothing is answered before it (16.1).

The rules of the store are plain functions over a `Tx`; an engine is a `Database` that runs them.
"""

import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import trio
from outcome import Error, Outcome, Value

from scuba.errors import Problem
from scuba.server.counts import Pace
from scuba.server.store.changes import Change
from scuba.server.store.database import Broken, Database, Row, Seal, Tx
from scuba.server.store.ids import moment
from scuba.server.store.news import Ear, News

__all__ = [
    "BATCH",
    "CLOSE_S",
    "Broken",
    "Database",
    "Engine",
    "Listener",
    "Row",
    "Seal",
    "Tx",
    "Write",
    "running",
    "unavailable",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")
Listener = Callable[[Change], None]

BATCH = 256
"""Most writes in one transaction."""
CLOSE_S = 10.0
"""Longest time that started writes hold up the close (14.5)."""


class Write:
    """One write inside its transaction: a `Tx`, the time, and what to tell once it is committed."""

    def __init__(self, tx: Tx, now_ms: int) -> None:
        self._tx = tx
        self.now_ms, self.now = now_ms, moment(now_ms)
        self.request_id: str | None = None
        self.changes: list[Change] = []

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        """Return the first row, or None."""
        return self._tx.one(sql, args)

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        """Return every row."""
        return self._tx.all(sql, args)

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        """Return how many rows were changed."""
        return self._tx.run(sql, args)

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row of arguments."""
        self._tx.many(sql, rows)

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        return self._tx.has_table(name)

    def tell(self, change: Change) -> None:
        """Tell the listeners, if and when this write is committed."""
        self.changes.append(change)


class _Job(Generic[T]):
    """A write on its way: from the caller to the writer and, answered, back."""

    def __init__(self, work: Callable[[Write], T], clock_ms: Callable[[], int]) -> None:
        self._work, self._clock_ms = work, clock_ms
        self.changes: list[Change] = []
        self.outcome: Outcome[T] | None = None
        self.answered = trio.Event()

    def __call__(self, tx: Tx) -> T:
        write = Write(tx, self._clock_ms())
        result = self._work(write)
        self.changes = write.changes
        return result

    def answer(self, outcome: Outcome[T]) -> None:
        self.outcome = outcome
        self.answered.set()

    def result(self) -> T:
        if self.outcome is None:
            raise unavailable()
        return self.outcome.unwrap()


class Engine:
    """Takes writes one transaction at a time, and reads beside them.

    With an ear it tells its listeners also what other servers commit, in the order of the commits.
    """

    def __init__(
        self, database: Database, clock_ms: Callable[[], int], ear: Ear | None = None
    ) -> None:
        self._database, self._clock_ms = database, clock_ms
        self._news = None if ear is None else News(ear, self._tell)
        # No buffer: a write that was not taken yet can still be cancelled; a taken one finishes.
        self._send, self._receive = trio.open_memory_channel[_Job[Any]](0)
        self._writer = trio.CapacityLimiter(1)
        readers = database.readers
        self._readers = trio.CapacityLimiter(readers) if readers else self._writer
        self._life = trio.CancelScope(shield=True)  # its deadline is set by close()
        self._listeners: list[Listener] = []
        self.pace = Pace()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change right after its commit. Returns the undo."""
        self._listeners.append(listener)

        def undo() -> None:
            self._listeners.remove(listener)

        return undo

    async def write(self, work: Callable[[Write], T]) -> T:
        """Return what `work` returned, once it is on disk; raise what it raised, undone.

        Raises Problem 503 when nothing can be committed. Cancelled after it was taken, the write
        still finishes.
        """
        job = _Job(work, self._clock_ms)
        try:
            await self._send.send(job)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise unavailable() from None
        await job.answered.wait()
        return job.result()

    async def read(self, work: Callable[[Tx], T]) -> T:
        """Return what `work` returned, from one consistent state. Raises Problem 503.

        Cancelled, it leaves the look to its thread, which the close then waits for.
        """
        try:
            return await trio.to_thread.run_sync(
                self._database.look, work, limiter=self._readers, abandon_on_cancel=True
            )
        except Broken as error:
            logger.error("store cannot read: %s", error)  # noqa: TRY400  # no trace, it travels up
            raise unavailable() from error

    async def run(self) -> None:
        """Commit what comes until `close`."""
        with self._life, self._receive:
            async with trio.open_nursery() as nursery:
                if self._news is not None:
                    nursery.start_soon(self._news.run, name="store news")
                async for first in self._receive:
                    await self._commit([first, *self._waiting()])
                nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Take no more; what was taken has `CLOSE_S` to finish."""
        self._send.close()
        self._life.deadline = trio.current_time() + CLOSE_S

    @property
    def waiting(self) -> int:
        """How many writes wait for the commit after the one in hand."""
        return self._send.statistics().tasks_waiting_send

    async def shut(self) -> None:
        """Close the database once no thread uses it; cancelled, leave that to the thread."""
        await trio.to_thread.run_sync(
            self._database.close, limiter=self._writer, abandon_on_cancel=True
        )

    @property
    def abandoned(self) -> bool:
        """Whether a commit was still hanging when the time to close was over."""
        return self._life.cancelled_caught

    def _waiting(self) -> list[_Job[Any]]:
        jobs: list[_Job[Any]] = []
        while len(jobs) < BATCH - 1:
            try:
                jobs.append(self._receive.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        return jobs

    async def _commit(self, jobs: list[_Job[Any]]) -> None:
        outcomes: list[Outcome[object]] = []
        began = time.perf_counter()
        sealing = None if self._news is None else self._news.begin(partial(_changed, jobs))
        try:
            outcomes = await trio.to_thread.run_sync(
                partial(self._database.apply, jobs, sealing),
                limiter=self._writer,
                abandon_on_cancel=True,
            )
            self.pace.committed(len(jobs), time.perf_counter() - began)
            if self._news is not None and sealing is not None:
                self._news.committed(sealing)
            self._tell(_changed(jobs, outcomes))
        except Broken as error:
            self.pace.failures += 1
            logger.error("store cannot commit: %s", error)  # noqa: TRY400  # the waiters hear of it
        finally:
            if self._news is not None:
                self._news.ended()
            for job, outcome in zip(jobs, outcomes or _refusals(len(jobs)), strict=True):
                job.answer(outcome)

    def _tell(self, changes: Iterable[Change]) -> None:
        for change in changes:
            for listener in tuple(self._listeners):
                listener(change)


def _changed(jobs: Sequence[_Job[Any]], outcomes: Sequence[Outcome[object]]) -> list[Change]:
    """Return the changes of the writes that succeeded, in order."""
    pairs = zip(jobs, outcomes, strict=True)
    return [change for job, got in pairs if isinstance(got, Value) for change in job.changes]


def unavailable() -> Problem:
    """Return the refusal of a store that cannot commit or is closing."""
    return Problem(503, "unavailable", "the store cannot do this now; try again")


def _refusals(count: int) -> list[Outcome[object]]:
    return [Error(unavailable()) for _ in range(count)]


@asynccontextmanager
async def running(
    database: Database, clock_ms: Callable[[], int], ear: Ear | None = None
) -> AsyncGenerator[tuple[Engine, trio.Nursery]]:
    """Run an engine over an open database, and close both within `CLOSE_S` on the way out."""
    engine = Engine(database, clock_ms, ear)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.run, name="store writer")
            try:
                yield engine, nursery
            finally:
                engine.close()
    finally:
        if not engine.abandoned:  # else a worker thread still holds the connection
            with trio.move_on_after(CLOSE_S, shield=True):
                await engine.shut()
