"""The journal as one SQLite file: read once when it is opened, each change durable on return."""

import os
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import MappingProxyType

import trio

from actors.ports import Position
from scuba.errors import ConfigError, ScubaError
from scuba.journal.schema import TooNew, meta, migrate, put_meta

JOURNAL_NAME = "journal.db"
CLOSE_S = 5.0
BUSY_MS = 5000

_SETTLE = """
    INSERT INTO checkpoints VALUES (?, ?, ?) ON CONFLICT (thread_id) DO UPDATE
    SET log_epoch = excluded.log_epoch, seq = excluded.seq
    WHERE log_epoch != excluded.log_epoch OR seq < excluded.seq
"""
_REMEMBER = "INSERT OR REPLACE INTO sessions VALUES (?, ?)"
_FORGET = "DELETE FROM sessions WHERE thread_id = ?"


class SqliteJournal:
    """Fills `actors.ports.Journal`. Owns its connection; only a worker thread touches it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._writer = trio.CapacityLimiter(1)
        self._checkpoints = {
            str(thread_id): Position(str(log_epoch), int(seq))
            for thread_id, log_epoch, seq in connection.execute("SELECT * FROM checkpoints")
        }
        self._sessions = {
            str(thread_id): str(session_id)
            for thread_id, session_id in connection.execute("SELECT * FROM sessions")
        }

    def checkpoints(self) -> Mapping[str, Position]:
        """Return the settlement checkpoint of every thread that has one; it follows `settle`."""
        return MappingProxyType(self._checkpoints)

    async def settle(self, thread_id: str, position: Position) -> None:
        """Move a thread's checkpoint; never backwards within one log epoch. Durable on return."""
        await self._write(_SETTLE, (thread_id, position.log_epoch, position.seq))
        held = self._checkpoints.get(thread_id)
        if held is None or held.log_epoch != position.log_epoch or held.seq < position.seq:
            self._checkpoints[thread_id] = position

    def session_id(self, thread_id: str) -> str | None:
        """Return the harness session to resume for a thread."""
        return self._sessions.get(thread_id)

    async def remember_session(self, thread_id: str, session_id: str | None) -> None:
        """Keep (or, with None, forget) a thread's harness session."""
        if session_id == self._sessions.get(thread_id):
            return
        if session_id is None:
            await self._write(_FORGET, (thread_id,))
            self._sessions.pop(thread_id, None)
        else:
            await self._write(_REMEMBER, (thread_id, session_id))
            self._sessions[thread_id] = session_id

    async def _write(self, statement: str, values: tuple[str | int, ...]) -> None:
        # Not abandoned on cancel: a write that began is finished before its caller goes on.
        try:
            await trio.to_thread.run_sync(
                self._connection.execute, statement, values, limiter=self._writer
            )
        except sqlite3.Error as error:
            raise ScubaError(f"cannot write the journal {self._path}: {error}") from error


@asynccontextmanager
async def open_journal(
    path: Path, *, principal_id: str | None = None
) -> AsyncGenerator[SqliteJournal]:
    """Open the journal file at `path`, made with mode 0600 if it is not there; closed on leaving.

    `principal_id`: whose it is; a file that belongs to another one is refused. Raises ConfigError
    naming the file and what to do.
    """
    journal, connection = await trio.to_thread.run_sync(_open, path, principal_id)
    try:
        yield journal
    finally:
        with trio.move_on_after(CLOSE_S, shield=True):
            await trio.to_thread.run_sync(connection.close, abandon_on_cancel=True)


def _open(path: Path, principal_id: str | None) -> tuple[SqliteJournal, sqlite3.Connection]:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
            _claim(connection, path, principal_id)
            return SqliteJournal(connection, path), connection
        except BaseException:
            connection.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot open the journal {path}: {error.strerror}",
            "give this process the right to read and write it",
        ) from error
    except TooNew as error:
        raise ConfigError(
            f"the journal {path} was written by a later scuba: {error}",
            "run that version, or name another state directory",
        ) from error
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise ConfigError(
            f"the journal {path} cannot be used: {error}",
            "move the file away: the bot then starts each thread as on its first join",
        ) from error


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")  # a settled input must outlive a power cut
    with closing(connection.execute("PRAGMA quick_check(1)")) as rows:
        verdict = str(rows.fetchone()[0])
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict.partition("\n")[0])
    migrate(connection)


def _claim(connection: sqlite3.Connection, path: Path, principal_id: str | None) -> None:
    if principal_id is None:
        return
    owner = meta(connection, "principal_id")
    if owner is None:
        put_meta(connection, "principal_id", principal_id)
    elif owner != principal_id:
        raise ConfigError(
            f"the journal {path} belongs to {owner}, not to {principal_id}",
            "name another directory with stateDir",
        )
