"""Opening the journal: made if it is not there, put aside if it is damaged, refused if foreign."""

import logging
import os
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Literal

import trio

from scuba.descriptors import too_few_left, too_many
from scuba.errors import ConfigError, ScubaError, unusable
from scuba.journal.schema import TooNew, meta, migrate, put_meta
from scuba.journal.store import SqliteJournal
from scuba.journal.stubborn import FILES, PASSING

logger = logging.getLogger(__name__)

JOURNAL_NAME = "journal.db"
Synchronous = Literal["normal", "full"]
CLOSE_S = 5.0
BUSY_MS = 5000
COMPANIONS = ("", "-wal", "-shm")
_PAGE = re.compile(r"page (\d+)", re.IGNORECASE)
PASSING_AT_START = PASSING - {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
"""A supervisor tries again; a file that may not be used at all, somebody has to look at."""


class Damaged(Exception):
    """What is in the file is no journal any more; `offset`, in bytes, where that shows."""

    def __init__(self, why: str, offset: int) -> None:
        super().__init__(why)
        self.offset = offset


@asynccontextmanager
async def open_journal(
    path: Path, *, principal_id: str | None = None, synchronous: Synchronous = "normal"
) -> AsyncGenerator[SqliteJournal]:
    """Open the journal file at `path`, made with mode 0600 if it is not there; closed on leaving.

    A damaged file is put aside, named in the log, and a new one begun. `principal_id`: whose it
    is; a file that belongs to another one is refused. Raises ConfigError naming the file and what
    to do.
    """
    journal, connection = await trio.to_thread.run_sync(_open, path, principal_id, synchronous)
    try:
        yield journal
    finally:
        with trio.move_on_after(CLOSE_S, shield=True):
            await trio.to_thread.run_sync(connection.close, abandon_on_cancel=True)


def _open(
    path: Path, principal_id: str | None, synchronous: Synchronous
) -> tuple[SqliteJournal, sqlite3.Connection]:
    try:
        try:
            return _opened(path, principal_id, synchronous)
        except Damaged as damage:
            aside = _put_aside(path)
            logger.error(  # noqa: TRY400  # the cause is told, a trace helps nobody
                "the journal %s is damaged at byte %d (%s): put aside as %s; each thread begins "
                "as on its first join",
                path,
                damage.offset,
                damage,
                aside.name,
            )
            return _opened(path, principal_id, synchronous)
    except OSError as error:
        raise unusable(
            error,
            f"cannot open the journal {path}: {error.strerror}",
            "free space on that disk, or give this process the right to read and write it",
        ) from error
    except TooNew as error:
        raise ConfigError(
            f"the journal {path} was written by a later scuba: {error}",
            "run that version, or name another state directory",
        ) from error
    except (sqlite3.Error, Damaged) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if too_few_left(FILES):
            raise ScubaError(f"the journal {path} cannot be opened", too_many()) from error
        raise (ScubaError if code in PASSING_AT_START else ConfigError)(
            f"the journal {path} cannot be used: {error}",
            "check the disk, or name another state directory",
        ) from error


def _opened(
    path: Path, principal_id: str | None, synchronous: Synchronous
) -> tuple[SqliteJournal, sqlite3.Connection]:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, synchronous)
        _claim(connection, path, principal_id)
        return SqliteJournal(connection, path), connection
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError | ValueError | TypeError) and not isinstance(
            error, sqlite3.OperationalError
        ):
            raise Damaged(str(error), _offset(str(error), path)) from error
        raise


def _prepare(connection: sqlite3.Connection, synchronous: Synchronous) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    with closing(connection.execute("PRAGMA quick_check(1)")) as rows:
        verdict = str(rows.fetchone()[0])
    if verdict != "ok":
        raise sqlite3.DatabaseError(" ".join(verdict.split()))
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


def _offset(why: str, path: Path) -> int:
    """Return the byte at which the first bad page begins, as far as SQLite tells."""
    found = _PAGE.search(why)
    if found is None:
        return 0
    with path.open("rb") as file:
        size = int.from_bytes(file.read(18)[16:18], "big")
    return (int(found[1]) - 1) * (65_536 if size == 1 else size)


def _put_aside(path: Path) -> Path:
    """Rename the file and its companions, never over another one; return the new name."""
    number = 1
    while path.with_name(f"{path.name}.damaged-{number}").exists():
        number += 1
    for suffix in COMPANIONS:
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.rename(path.with_name(f"{path.name}.damaged-{number}{suffix}"))
    return path.with_name(f"{path.name}.damaged-{number}")
