"""PostgreSQL below the rules: one writer at a time over all servers, and a few that only read.

The rules are written for one writer (16.1). So each transaction takes one advisory lock first,
and what it then reads stays true until its commit, as on SQLite; decision 0010 tells why.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from queue import SimpleQueue
from typing import TypeVar

import psycopg
from outcome import Error, Outcome, Value, capture

from scuba.server.store.database import Broken, Row, Seal, Tx
from scuba.server.store.dialect import only_reads, to_postgres
from scuba.server.store.place import PostgresPlace
from scuba.server.store.session import Session, open_first, open_session, told

T = TypeVar("T")

READERS = 4
WRITER_LOCK = 0x5C0BA
"""The advisory lock of whoever writes to a store of this database."""

_ITS_OWN_FAULT = (psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.DataError)
"""Errors of one write; every other error is the database's and fails the whole batch."""
_LOCK = f"SELECT pg_advisory_xact_lock({WRITER_LOCK})"
_PATIENCE = ("SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0")


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


class Postgres:
    """Owns its sessions with one database. One that is lost is opened again when it is needed."""

    def __init__(self, place: PostgresPlace, *, read_only: bool = False) -> None:
        """Open the first session. Raises ConfigError, or ScubaError when it may be tried again."""
        self.place = place
        self._read_only = read_only
        self._writer: Session | None = open_first(place, read_only=read_only)
        self._idle: SimpleQueue[Session | None] = SimpleQueue()
        for _ in range(READERS):
            self._idle.put(None)

    @property
    def readers(self) -> int:
        """How many may read at once."""
        return READERS

    def apply(
        self,
        works: Sequence[Callable[[Tx], object]],
        seal: Seal | None = None,
        *,
        patient: bool = False,
    ) -> list[Outcome[object]]:
        """Run each so that it fails alone, commit once. Raises Broken when that is not certain.

        Several are first tried without savepoints, and all of them anew when one has to be undone.
        """
        session = self._begun(_PATIENCE if patient else ())
        tx = PostgresTx(session)
        try:
            with _whole(session):
                if patient or len(works) == 1:
                    outcomes = _apart(tx, works, seal, nullcontext if patient else tx.pipeline)
                elif (done := _together(tx, works, seal)) is not None:
                    outcomes = done
                else:
                    tx.send("ROLLBACK")
                    _begin(session, ())
                    outcomes = _apart(tx, works, seal, tx.pipeline)
        except psycopg.Error as error:
            raise Broken(told(error)) from None
        if tx.ended != "COMMIT":  # a transaction that has failed ends with ROLLBACK instead
            session.close()
            raise Broken(f"the commit became {tx.ended}")
        return outcomes

    def look(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one snapshot; anew, if the session was lost meanwhile. Raises Broken."""
        session = self._idle.get()
        try:
            if session is not None and not session.closed:
                try:
                    return _snapshot(session, work)
                except psycopg.OperationalError:
                    if not session.closed:
                        raise
            session = open_session(self.place, read_only=True)
            return _snapshot(session, work)
        except psycopg.Error as error:
            raise Broken(told(error)) from None
        finally:
            self._idle.put(session)

    def close(self) -> None:
        """Close every session."""
        for _ in range(READERS):
            session = self._idle.get()
            if session is not None:
                session.close()
        if self._writer is not None:
            self._writer.close()

    def _begun(self, patience: Sequence[str]) -> Session:
        """Return the writing session in a transaction that nobody writes beside.

        A session that was lost while idle is opened again here, where nothing is uncertain yet.
        """
        session = self._writer
        try:
            if session is not None and not session.closed:
                try:
                    return _begin(session, patience)
                except psycopg.OperationalError:
                    if not session.closed:
                        raise
            self._writer = session = open_session(self.place, read_only=self._read_only)
            return _begin(session, patience)
        except psycopg.Error as error:
            raise Broken(told(error)) from None


def _begin(session: Session, patience: Sequence[str]) -> Session:
    tx = PostgresTx(session)
    with _whole(session), tx.pipeline():
        tx.send("BEGIN ISOLATION LEVEL READ COMMITTED", *patience, _LOCK)
    return session


def _snapshot(session: Session, work: Callable[[Tx], T]) -> T:
    tx = PostgresTx(session)
    with _whole(session), tx.pipeline():
        tx.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return work(tx)
        finally:
            tx.send("COMMIT")


@contextmanager
def _whole(session: Session) -> Generator[None]:
    """Close a session whose transaction failed or is half done: the server undoes it then."""
    try:
        yield
    except BaseException:
        if session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            session.close()
        raise


def _together(
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


def _apart(
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
