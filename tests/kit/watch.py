"""How big a running program is: seen from outside, and as it says itself at SIGUSR1."""

import json
import os
import signal
from pathlib import Path

import trio

from tests.kit.apart import Apart
from tests.kit.program import ROOT, Program

CENSUS_S = 30.0
BACK_S = 60.0
"""Longest wait for what is let go of when it has been idle for a while."""
HURRIED = """
import scuba.bubble.backoff

scuba.bubble.backoff.CAP_S = {cap_s}
"""
"""A `sitecustomize` with which a bot waits shortly before it connects anew."""


def hurried(place: Path, cap_s: float = 0.05) -> str:
    """Return the PYTHONPATH of a bot that is cut off a thousand times and must not take a day."""
    folder = place / "hurried"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HURRIED.format(cap_s=cap_s))
    return f"{folder}:{ROOT}"


def files(program: Program) -> int:
    """Return how many descriptors it has open."""
    return len(os.listdir(f"/proc/{program.pid}/fd"))


def rss_bytes(program: Program) -> int:
    """Return how much memory it has in use."""
    pages = int(Path(f"/proc/{program.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_s(program: Program) -> float:
    """Return the processor time it has used, without that of its children."""
    fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def census(program: Program) -> dict[str, int]:
    """Return what it says it holds. Raises AssertionError when it does not say."""
    at = program.out_bytes
    program.send(signal.SIGUSR1)
    with trio.move_on_after(CENSUS_S):
        while (told := _census(program.wrote(at))) is None:  # noqa: ASYNC110  # a file
            await trio.sleep(0.005)
        return told
    raise AssertionError(f"no census: {program.told()}")


async def at_rest(parts: Apart, bot: Program) -> dict[str, int]:
    """Return a census once nothing is held but threads; those who can, hibernate.

    Connections are made anew before, because one that nobody uses is closed only when it is met.
    """
    parts.network.drop()
    await parts.talk.ask("anything left?")
    return await without_sessions(bot)


async def without_sessions(bot: Program) -> dict[str, int]:
    """Return a census once no session has a process; all are idle, and hibernate."""
    with trio.fail_after(BACK_S):
        while not_seen_off(held := await census(bot)):  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.5)
    return held


def not_seen_off(held: dict[str, int]) -> int:
    return held["sessions"] + held["processes"] + held["ended"]


def _census(log: bytes) -> dict[str, int] | None:
    for line in log.splitlines(keepends=True):
        if b'"message":"census"' in line and line.endswith(b"\n"):
            return {name: n for name, n in json.loads(line).items() if isinstance(n, int)}
    return None
