"""A terminal: a program runs in it, and what a person would see of it can be read."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from tests.kit.program import scrubbed


class Terminal:
    """One command of scuba in a terminal of its own."""

    def __init__(self, place: Path, args: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._seen = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scuba", *args],
            env={**scrubbed(place), "TERM": "xterm"},
            cwd=place / "work",
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def screen(self) -> str:
        """Everything that was shown so far, colours included."""
        try:
            while data := os.read(self._ours, 65_536):
                self._seen += data
        except (BlockingIOError, OSError):  # nothing new, or the last one has hung up
            pass
        return self._seen.decode(errors="replace").replace("\r\n", "\n")

    async def shows(self, words: str, within_s: float = 30) -> str:
        """Return the screen once it holds `words`. Raises AssertionError."""
        with trio.move_on_after(within_s):
            while words not in self.screen:  # noqa: ASYNC110  # a terminal tells nobody
                await trio.sleep(0.02)
            return self.screen
        raise AssertionError(f"it does not show {words!r}: {self.screen}")

    async def ended(self, within_s: float = 30) -> int:
        """Return the exit code, once it has ended. Raises AssertionError."""
        with trio.move_on_after(within_s):
            while self._process.poll() is None:
                await trio.sleep(0.02)
                _ = self.screen  # a full terminal would hold it up
            return self._process.wait()
        raise AssertionError(f"it has not ended: {self.screen}")

    def press_ctrl_c(self) -> None:
        """Do what a terminal does when a person presses it."""
        self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End the program and the terminal."""
        self._process.kill()
        self._process.wait(10)
        os.close(self._ours)


@contextmanager
def terminal(place: Path, *args: str) -> Iterator[Terminal]:
    """Run a command of scuba in a terminal until the block ends."""
    opened = Terminal(place, args)
    try:
        yield opened
    finally:
        opened.close()
