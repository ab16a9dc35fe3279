"""The life-line: no session outlives this program, whatever ends it.

A guard process holds the other end of a pipe and ends the sessions when the pipe breaks. The tags
are on disk as well, for the case that guard and daemon were killed together: the next start ends
what is left before it resumes anything. Everything here blocks; call it in a worker thread.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scuba.causes import cause_of
from scuba.harness.proc import HAS_PROC, end_sessions
from scuba.harness.processes import start_spared

logger = logging.getLogger(__name__)

GUARD = (sys.executable, "-m", "scuba.harness.guard")
HOME = Path(__file__).parents[2]
"""Where Python finds this package, installed or not."""
NEEDED = ("PATH", "PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH")
"""What a Python may need to start; nothing else of our environment is the guard's business."""
GOODBYE_S = 2.0


class LifeLine:
    """Holds the tags of the sessions that live. `folder` has a file for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._tags: set[str] = set()
        self._guard: subprocess.Popen[bytes] | None = None

    def hold(self, tag: str, thread_id: str) -> None:
        """Tie a session to this program; call it before its first process starts. OSError."""
        with self._lock:
            (self._folder / tag).write_text(thread_id)
            self._tags.add(tag)
            self._tell(f"+{tag}")

    def release(self, tag: str) -> None:
        """Forget a session whose processes are gone; again is well."""
        with self._lock:
            self._tags.discard(tag)
            self._tell(f"-{tag}")
            with contextlib.suppress(OSError):  # the next start finds nothing alive under it
                (self._folder / tag).unlink(missing_ok=True)

    def check(self) -> None:
        """Start the guard anew if somebody ended it."""
        with self._lock:
            if self._tags:
                self._tell("")

    def close(self) -> None:
        """End the guard. The sessions have ended before."""
        with self._lock:
            guard, self._guard = self._guard, None
            if guard is not None:
                _part_from(guard, GOODBYE_S)

    def _tell(self, line: str) -> None:
        """Write to the guard that lives; a new one is told of every session."""
        if not HAS_PROC or (self._guard is not None and _write(self._guard, f"{line}\n")):
            return
        if self._guard is not None:
            _part_from(self._guard, 0)
        environment = {name: os.environ[name] for name in NEEDED if name in os.environ}
        try:
            self._guard = start_spared(GUARD, environment, str(HOME))
        except OSError as error:
            self._guard = None
            logger.warning("no guard for the sessions: %s", cause_of(error))
            return
        _write(self._guard, "".join(f"+{tag}\n" for tag in sorted(self._tags)))


def _write(guard: subprocess.Popen[bytes], text: str) -> bool:
    """Return whether the guard lives and has room for what it is told."""
    assert guard.stdin is not None
    if guard.poll() is not None:
        return False
    try:
        return os.write(guard.stdin.fileno(), text.encode()) == len(text)
    except OSError:
        return False


def _part_from(guard: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close the line and see the guard off. Killed, it does nothing about the sessions."""
    assert guard.stdin is not None
    if not patience_s:
        guard.kill()
    with contextlib.suppress(OSError):
        guard.stdin.close()
    try:
        guard.wait(patience_s or GOODBYE_S)
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.wait()


@contextmanager
def open_life_line(folder: Path) -> Generator[LifeLine]:
    """Yield a life-line after the sessions that an earlier process left were ended. OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    end_leftovers(folder)
    line = LifeLine(folder)
    try:
        yield line
    finally:
        line.close()


def end_leftovers(folder: Path) -> None:
    """End the processes of sessions that are still on record, and clear the record."""
    tags = {path.name for path in folder.iterdir() if path.is_file()}
    if not tags:
        return
    left = end_sessions(tags)
    logger.warning("ended what %d sessions of an earlier process had left", len(tags))
    if left:
        logger.error("still running: %s", ", ".join(str(seen.pid) for seen in left))
    for tag in tags:
        (folder / tag).unlink(missing_ok=True)
