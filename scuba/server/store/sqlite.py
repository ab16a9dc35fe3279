"""SQLite below the rules: one writer connection, a few that only read, durable commits (16.1)."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from outcome import Error, Outcome, capture

from scuba.errors import ConfigError
from scuba.server.store.database import Broken, Row, Seal, Tx
from scuba.server.store.held import hold_file

T = TypeVar("T")

OLDEST = (3, 35, 0)
"""The first SQLite with RETURNING."""

READERS = 4
_BUSY_S = 5.0
_CACHED_STATEMENTS = 512
_ITS_OWN_FAULT = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError)
"""Errors of one write; every other error of SQLite is the database's and fails them all."""


class SqliteTx:
    """A transaction on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        """Return the first row, or None."""
        rows = self._execute(sql, args).fetchall()  # all: an unfinished cursor holds the savepoint
        return rows[0] if rows else None

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        """Return every row."""
        return self._execute(sql, args).fetchall()

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        """Return how many rows were changed."""
        return self._execute(sql, args).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row of arguments."""
        self._executemany(sql, rows)

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        return self.one("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)) is not None


class Sqlite:
    """Owns the connections to one file, or the only one to a database in memory."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        """Open it. Raises ConfigError for what is no database, or is in use by another server."""
        _check_library()
        self._uri = ":memory:" if path is None else path.absolute().as_uri()
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        try:
            with ExitStack() as undo:
                if path is not None and not read_only:
                    _make_private(path)
                    undo.enter_context(hold_file(path))
                writer = self._connect("?mode=ro" if read_only else "")
                self._writer = undo.enter_context(closing(writer))
                if read_only:
                    _check_readable(self._writer)
                else:
                    _set_durable(self._writer)
                for _ in range(self.readers):
                    self._idle.put(undo.enter_context(closing(self._connect("?mode=ro"))))
                self._closing = undo.pop_all()
        except (sqlite3.Error, OSError) as error:
            hint = "check that it is a file of this server, and that this user may write it"
            raise ConfigError(f"cannot open the store {path}: {error}", hint) from error

    @property
    def readers(self) -> int:
        """How many may read at once; a database in memory has one connection for everything."""
        return 0 if self._uri == ":memory:" else READERS

    def apply(
        self,
        works: Sequence[Callable[[Tx], object]],
        seal: Seal | None = None,
        *,
        patient: bool = False,
    ) -> list[Outcome[object]]:
        """Run each under a savepoint, commit once. Raises Broken when that is not certain."""
        tx = SqliteTx(self._writer)
        try:
            if self._writer.in_transaction:  # left by a commit that failed
                tx.run("ROLLBACK")
            tx.run("BEGIN IMMEDIATE")
            outcomes = [_under_savepoint(tx, work) for work in works]
            if seal is not None:
                seal(tx, outcomes)
            tx.run("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            raise Broken(str(error)) from error
        return outcomes

    def look(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one snapshot. Raises Broken."""
        connection = self._idle.get() if self.readers else self._writer
        tx = SqliteTx(connection)
        try:
            tx.run("BEGIN")
            try:
                return work(tx)
            finally:
                tx.run("ROLLBACK")
        except sqlite3.Error as error:
            raise Broken(str(error)) from error
        finally:
            if self.readers:
                self._idle.put(connection)

    def close(self) -> None:
        """Close every connection; the last one folds the write-ahead log into the file."""
        for _ in range(self.readers):
            self._idle.get()  # whoever still reads puts it back when done
        self._closing.close()

    def _connect(self, query: str = "") -> sqlite3.Connection:
        return sqlite3.connect(
            self._uri + query,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,  # worker threads take turns
            cached_statements=_CACHED_STATEMENTS,
            uri=True,
        )

    def _undo(self) -> None:
        if self._writer.in_transaction:
            try:
                self._writer.execute("ROLLBACK")
            except sqlite3.Error:  # SQLite rolls back itself on the worst errors; else the next
                return  # apply tries again, and fails like this one


def _check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"this Python has SQLite {sqlite3.sqlite_version}, the store needs {needed}",
            "use a Python built with a newer SQLite",
        )


def _check_readable(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT 1 FROM sqlite_master")


def _set_durable(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _under_savepoint(tx: SqliteTx, work: Callable[[Tx], object]) -> Outcome[object]:
    tx.run("SAVEPOINT one_write")
    outcome = capture(work, tx)
    if isinstance(outcome, Error):
        error = outcome.error
        if isinstance(error, sqlite3.Error) and not isinstance(error, _ITS_OWN_FAULT):
            raise error
        tx.run("ROLLBACK TO one_write")
    tx.run("RELEASE one_write")
    return outcome


def _make_private(path: Path) -> None:
    """Create the file for this user only; SQLite gives its companions the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
