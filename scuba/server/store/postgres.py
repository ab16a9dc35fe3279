"""PostgreSQL below the rules: one writer at a time over all servers, and a few that only read.

The rules are written for one writer (16.1). So each transaction takes one advisory lock first,
and what it then reads stays true until its commit, as on SQLite; decision 0010 tells why.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import TypeVar

import psycopg
from outcome import Outcome

from scuba.server.store.database import Broken, Seal, Tx
from scuba.server.store.place import PostgresPlace
from scuba.server.store.postgres_tx import PostgresTx, apart, together
from scuba.server.store.session import Session, open_first, open_session, told

T = TypeVar("T")

READERS = 4
WRITER_LOCK = 0x5C0BA
"""The advisory lock of whoever writes to a store of this database."""

_LOCK = f"SELECT pg_advisory_xact_lock({WRITER_LOCK})"
_PATIENCE = ("SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = 0")


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
                    outcomes = apart(tx, works, seal, nullcontext if patient else tx.pipeline)
                elif (done := together(tx, works, seal)) is not None:
                    outcomes = done
                else:
                    tx.send("ROLLBACK")
                    _begin(session, ())
                    outcomes = apart(tx, works, seal, tx.pipeline)
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
