"""A census of processes: who descends from whom, and is anybody left?"""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process, whatever becomes of its number. `started`: clock ticks since boot."""

    pid: int
    started: int
    argv: str = ""

    @property
    def alive(self) -> bool:
        """Return whether it still runs; one that only waits to be reaped does not."""
        seen = _stat(self.pid)
        return seen is not None and seen[2] == self.started and seen[1] not in "ZX"

    def kill(self) -> None:
        """Kill it, if it is still the same."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def find(pid: int) -> Process | None:
    """Return the living process of that number, None when there is none."""
    seen = _stat(pid)
    process = Process(pid, seen[2], _argv(pid)) if seen is not None else None
    return process if process is not None and process.alive else None


def descendants(pid: int) -> set[Process]:
    """Return the living processes below `pid`, without it."""
    stats = {int(name): _stat(int(name)) for name in os.listdir(PROC) if name.isdecimal()}
    below = {pid}
    while True:
        more = {one for one, seen in stats.items() if seen and seen[0] in below} - below
        if not more:
            break
        below |= more
    found = {Process(one, seen[2], _argv(one)) for one in below if (seen := stats.get(one))}
    return {process for process in found if process.pid != pid and process.alive}


def with_argument(text: str) -> set[Process]:
    """Return the living processes, wherever they descend from, whose command line holds `text`."""
    found: set[Process] = set()
    for name in os.listdir(PROC):
        if name.isdecimal() and int(name) != os.getpid() and text in (argv := _argv(int(name))):
            seen = _stat(int(name))
            if seen is not None:
                found.add(Process(int(name), seen[2], argv))
    return {process for process in found if process.alive}


async def assert_none_left(processes: set[Process], within_s: float = 2.0) -> None:
    """Return as soon as all have ended; raise AssertionError naming those that have not."""
    with trio.move_on_after(within_s):
        while any(process.alive for process in processes):  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)
    left = {process for process in processes if process.alive}
    assert not left, f"still running: {sorted((one.pid, one.argv) for one in left)}"


def _stat(pid: int) -> tuple[int, str, int] | None:
    """Return parent, state and start of a process, or None when there is none."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), fields[0], int(fields[19])


def _argv(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (FileNotFoundError, ProcessLookupError, UnicodeDecodeError):
        return ""
