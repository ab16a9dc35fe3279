"""Whether the directory in which a CLI works is still the one in which it was started (10.10)."""

import os
from pathlib import Path

import trio

LOOK_S = 1.0
"""Between two looks."""
PATIENCE_S = 5.0
"""A look that takes longer is one at a directory that is not there: its server is gone, say."""
MISSES = 2
"""So many looks in a row must fail: one alone may fall into a moment of somebody's renaming."""


async def vanished(directory: Path) -> str:
    """Return once the directory is gone, or another one is in its place: what was seen instead.

    At most `MISSES * (LOOK_S + PATIENCE_S)` later.
    """
    limiter = trio.CapacityLimiter(1)  # a look may hang for ever, and takes nobody else's thread
    began = await _look(directory, limiter)
    misses = 0
    while True:
        await trio.sleep(LOOK_S)
        now = await _look(directory, limiter)
        misses = misses + 1 if isinstance(now, str) or now != began else 0
        if misses >= MISSES:
            return f"{directory} {now if isinstance(now, str) else 'is another directory now'}"


async def _look(directory: Path, limiter: trio.CapacityLimiter) -> tuple[int, int] | str:
    """Return which directory it is, or why that cannot be said."""
    with trio.move_on_after(PATIENCE_S):
        try:
            about = await trio.to_thread.run_sync(
                os.stat, directory, abandon_on_cancel=True, limiter=limiter
            )
        except OSError as error:
            return f"cannot be reached any more: {error.strerror}"
        return about.st_dev, about.st_ino
    return f"did not answer within {PATIENCE_S:g} s"
