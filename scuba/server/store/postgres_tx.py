"""One transaction on PostgreSQL, and the batch of writes that is run in it, each failing alone."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg
from outcome import Error, Outcome, Value, capture

from scuba.server.store.database import Row, Seal, Tx
from scuba.server.store.dialect import only_reads, to_postgres
from scuba.server.store.session import Session, told

_ITS_OWN_FAULT = (psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.DataError)
"""Errors of one write; every other error is the database's and fails the whole batch."""


class Rejected(Exception):
    """PostgreSQL refused one statement, and with it one write."""


class PostgresTx:
    """A transaction on one session. In its pipeline, what returns nothing waits for nothing.

    A statement of DDL, or a rollback, must stay outside: after one, psycopg forgets what it has
    prepared, and in a pipeline it would drop also what was prepared since.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pipeline: psycopg.Pipeline | None = None
        # Two: an answer that comes late must not be taken for that of the next question
        self._asking, self._telling = session.cursor(), session.cursor()
        self.wrote = False

    @contextmanager
    def pipeline(self) -> Generator[None]:
        """Wait only for answers that are asked for, and at the end for everything.

        Raises the first error of what was sent, but for that of the block itself.
        """
        with self._session.pipeline() as self._pipeline:
            try:
                yield
            except BaseException:
                with suppress(psycopg.Error):  # whoever leaves like this undoes it all
                    self._pipeline.sync()
                raise
            finally:
                self._pipeline = None

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        """Return the first row, or None."""
        return self._asked(sql, args).fetchone()

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        """Return every row."""
        return self._asked(sql, args).fetchall()

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        """Return how many rows were changed."""
        asked = self._asked(sql, args)
        if self._pipeline is not None:
            self._pipeline.sync()
        return asked.rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row of arguments; an error shows with the next answer."""
        if each := list(rows):
            self.wrote = True
            self._telling.executemany(to_postgres(sql), each)

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        return self.one("SELECT to_regclass(?)", (name,)) != (None,)

    def send(self, *statements: str) -> None:
        """Send statements of the transaction itself, whose answers say nothing."""
        for statement in statements:
            self._telling.execute(statement.encode())

    @property
    def ended(self) -> str | None:
        """Return how the server did the last of what was sent: `COMMIT`, if it did."""
        return self._telling.statusmessage

    def _asked(self, sql: str, args: Sequence[object]) -> psycopg.Cursor[Row]:
        self.wrote = self.wrote or not only_reads(sql)
        return self._asking.execute(to_postgres(sql), args)


def together(
    tx: PostgresTx, works: Sequence[Callable[[Tx], object]], seal: Seal | None
) -> list[Outcome[object]] | None:
    """Run all in one go and commit. Returns None, with nothing done, if one has to be undone."""
    try:
        with tx.pipeline():
            outcomes = [_unless_undone(tx, work) for work in works]
            if seal is not None:
                seal(tx, outcomes)
            tx.send("COMMIT")
    except (_Undo, *_ITS_OWN_FAULT):  # whose fault it is, nobody knows: answers come late
        return None
    return outcomes


def _unless_undone(tx: PostgresTx, work: Callable[[Tx], object]) -> Outcome[object]:
    tx.wrote = False
    outcome = capture(work, tx)
    if isinstance(outcome, Error):
        if isinstance(outcome.error, psycopg.Error):
            raise outcome.error
        if tx.wrote:
            raise _Undo
    return outcome


class _Undo(Exception):
    """A write has failed after it had written something."""


def apart(
    tx: PostgresTx,
    works: Sequence[Callable[[Tx], object]],
    seal: Seal | None,
    flow: Callable[[], AbstractContextManager[None]],
) -> list[Outcome[object]]:
    """Run each under a savepoint of its own, and commit."""
    outcomes = [_under_savepoint(tx, work, flow) for work in works]
    with flow():
        if seal is not None:
            seal(tx, outcomes)
        tx.send("COMMIT")
    return outcomes


def _under_savepoint(
    tx: PostgresTx, work: Callable[[Tx], object], flow: Callable[[], AbstractContextManager[None]]
) -> Outcome[object]:
    tx.wrote = False
    outcome = capture(_attempt, tx, work, flow)
    if isinstance(outcome, Value):
        return outcome
    error = outcome.error
    if isinstance(error, psycopg.Error):
        if not isinstance(error, _ITS_OWN_FAULT):
            raise error
        outcome = Error(Rejected(told(error)).with_traceback(error.__traceback__))
    elif not tx.wrote:
        tx.send("RELEASE one_write")
        return outcome
    tx.send("ROLLBACK TO one_write", "RELEASE one_write")
    return outcome


def _attempt(
    tx: PostgresTx, work: Callable[[Tx], object], flow: Callable[[], AbstractContextManager[None]]
) -> object:
    """Return what a write returned, once all of it was done: an error is never the next one's."""
    with flow():
        tx.send("SAVEPOINT one_write")
        result = work(tx)
        tx.send("RELEASE one_write")
    return result
