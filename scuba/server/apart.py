"""Large input is looked at in a worker thread, so that everybody else's goes on meanwhile."""

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

LARGE_BYTES = 16_384
"""Reading as much may take 10 ms: as long as the loop may be held up."""


async def apart(size_bytes: int, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises; it may touch nothing of the loop."""
    if size_bytes <= LARGE_BYTES:
        return work()
    return await trio.to_thread.run_sync(work)
