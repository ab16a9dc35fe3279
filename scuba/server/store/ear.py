"""The session on which a server hears of the commits of the others (16.4)."""

import threading

import psycopg

from scuba.server.store import change_log
from scuba.server.store.change_log import Batch
from scuba.server.store.database import Broken
from scuba.server.store.place import PostgresPlace
from scuba.server.store.postgres_tx import PostgresTx
from scuba.server.store.session import Session, open_session, told


class PostgresEar:
    """Owns one session, and opens it again when it was lost."""

    def __init__(self, place: PostgresPlace) -> None:
        """Begin to listen. Raises Broken."""
        self._place = place
        self._session: Session | None = None
        self._in_use = threading.Lock()
        self._closed = False
        try:
            self.began_at = change_log.head(PostgresTx(self._listening()))
        except psycopg.Error as error:
            raise Broken(told(error)) from None

    def wake_up(self) -> int | None:
        """Return the session's socket; None while there is none."""
        if self._session is None or self._session.closed:
            return None
        return self._session.fileno()

    def woken(self, server: str) -> bool:
        """Return whether another server has committed, or the session needs to be looked at."""
        if self._session is None or self._session.closed:
            return True
        try:
            self._session.pgconn.consume_input()
        except psycopg.OperationalError:
            self._session.close()
            return True
        found = False
        while notify := self._session.pgconn.notifies():
            found = found or not notify.extra.startswith(f"{server} ".encode())
        return found

    def since(self, after: int) -> list[Batch]:
        """Return the batches after a number. Raises Broken."""
        try:
            with self._in_use:
                return [] if self._closed else self._since(after)
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Listen no longer; whoever is asking just now closes the session afterwards."""
        self._closed = True
        if self._in_use.acquire(blocking=False):
            self._drop()
            self._in_use.release()

    def _since(self, after: int) -> list[Batch]:
        try:
            return change_log.since(PostgresTx(self._listening()), after)
        except psycopg.Error as error:
            self._drop()
            raise Broken(told(error)) from None

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()

    def _listening(self) -> Session:
        if self._session is None or self._session.closed:
            self._session = open_session(self._place, read_only=True)
            self._session.add_notify_handler(_ignore)  # else what comes amid an answer is kept
            self._session.execute(f"LISTEN {change_log.CHANNEL}".encode())
        return self._session


def _ignore(_: psycopg.Notify) -> None:
    """Whoever reads the log just now sees what this one is about."""
