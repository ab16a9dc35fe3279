"""What this process holds, counted when somebody asks: SIGUSR1 puts a census into the log.

A number that grows while the work does not is a leak, and the numbers say where to look.
"""

import ctypes
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec
import trio

from scuba.descriptors import open_files

Count = Callable[[], Mapping[str, int]]

logger = logging.getLogger(__name__)


class Counters:
    """Whoever holds something says here how it is counted. Asking costs, holding does not."""

    def __init__(self) -> None:
        self._counts: dict[str, Count] = {"process": _of_process}

    def add(self, name: str, count: Count) -> None:
        """Have `count` asked too, in place of what had that name before."""
        self._counts[name] = count

    def census(self) -> dict[str, int]:
        """Return every number, by name. Call it on the trio loop; it takes some tenths of a second.

        What nobody holds is let go of before, so that two censuses can be compared.
        """
        before = _memory("rss_bytes")
        give_back()
        counted = {name: n for count in self._counts.values() for name, n in count().items()}
        return counted | before | _memory("held_bytes")

    def tell(self) -> None:
        """Log a census, whatever the level: somebody asked for it."""
        about = (logger.name, logging.INFO, __file__, 0, "census", (), None)
        logger.handle(logger.makeRecord(*about, extra=self.census()))


def numbers(snapshot: msgspec.Struct) -> dict[str, int]:
    """Return a snapshot's fields, all of them numbers."""
    return {name: int(getattr(snapshot, name)) for name in snapshot.__struct_fields__}


def give_back() -> None:
    """Let go of garbage, and have the C library return what it keeps for later, where it can."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _of_process() -> dict[str, int]:
    counted = {
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "worker_threads": threading.active_count() - 1,
        "memory_blocks": sys.getallocatedblocks(),
    }
    with suppress(OSError):  # no Linux, or no descriptor is left
        counted["files"] = open_files()
    return counted


def _memory(name: str) -> dict[str, int]:
    try:
        with open("/proc/self/statm", "rb") as file:
            return {name: int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
    except OSError:  # as above
        return {}
