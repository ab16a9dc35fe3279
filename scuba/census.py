"""What this process holds, counted when somebody asks: SIGUSR1 puts a census into the log.

A number that grows while the work does not is a leak, and the numbers say where to look.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping

import msgspec
import trio

from scuba.descriptors import open_files

Count = Callable[[], Mapping[str, int]]

logger = logging.getLogger(__name__)


class Counters:
    """Whoever holds something says here how it is counted.

    Asking costs some tenths of a second, because garbage is collected before; holding is free.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Count] = {"process": _of_process}

    def add(self, name: str, count: Count) -> None:
        """Have `count` asked too, in place of what had that name before."""
        self._counts[name] = count

    def census(self) -> dict[str, int]:
        """Return every number, by name. Call it on the trio loop."""
        gc.collect()
        return {name: number for count in self._counts.values() for name, number in count().items()}

    def tell(self) -> None:
        """Log a census, whatever the level: somebody asked for it."""
        about = (logger.name, logging.INFO, __file__, 0, "census", (), None)
        logger.handle(logger.makeRecord(*about, extra=self.census()))


def numbers(snapshot: msgspec.Struct) -> dict[str, int]:
    """Return a snapshot's fields, all of them numbers."""
    return {name: int(getattr(snapshot, name)) for name in snapshot.__struct_fields__}


def _of_process() -> dict[str, int]:
    counted = {
        "tasks": trio.lowlevel.current_statistics().tasks_living,
        "worker_threads": threading.active_count() - 1,
        "memory_blocks": sys.getallocatedblocks(),
    }
    try:
        counted["files"] = open_files()
        with open("/proc/self/statm", "rb") as file:
            counted["rss_bytes"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux, or no descriptor is left
        pass
    return counted
