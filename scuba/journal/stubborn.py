"""Work on the journal that is repeated until the disk takes it: full or sick, it may recover."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio

from scuba.descriptors import too_few_left, too_many

T = TypeVar("T")
logger = logging.getLogger(__name__)

FIRST_S, CAP_S = 0.5, 5.0
FILES = 4
"""What SQLite opens for a journal: the file, its log and index, and the directory."""
EVERY_S = 60.0
"""Between two lines about one failure."""
PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""What somebody can put right while we wait. A damaged file is not among it."""


class Stubborn:
    """Does one work at a time, in the order in which it was asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = trio.Lock()
        self._said_at = -EVERY_S

    async def until_done(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns once the disk takes it; raises what will not pass."""
        async with self._turn:
            failures = 0
            while True:
                try:
                    result = await work()
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF not in PASSING:
                        raise
                    self._tell(error, failures)
                # The turn is kept: nobody else's work would fare better.
                else:
                    if failures:
                        logger.info("the journal %s can be written again", self._path)
                        self._said_at = -EVERY_S
                    return result
                await trio.sleep(min(FIRST_S * 2 ** min(failures, 10), CAP_S))
                failures += 1

    def _tell(self, error: sqlite3.OperationalError, failures: int) -> None:
        now = trio.current_time()
        if failures and now - self._said_at < EVERY_S:
            return
        self._said_at = now
        logger.error(
            "cannot write the journal %s: %s. Nothing is sent before it is on record, so the bot "
            "waits and tries again: %s",
            self._path,
            error,
            too_many() if too_few_left(FILES) else "free space on that disk, or make it writable",
        )
