"""Run the benches and print what they found as Markdown: `python -m tests.bench [NAME …]`."""

import platform
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import trio

from tests.bench import (
    appends,
    fan_out,
    frames,
    latency,
    long_thread,
    real_cli,
    stalled,
    threads,
)
from tests.bench.measure import Figure, show

LONGEST_S = 300.0

BENCHES: dict[str, tuple[str, Callable[[Path], Awaitable[list[Figure]]]]] = {
    "appends": ("Durable appends, at the store", appends.figures),
    "appends_http": ("Durable appends, over HTTP", appends.figures_over_http),
    "fan_out": ("Fan-out", fan_out.figures),
    "frames": ("Frames", frames.figures),
    "latency": ("Added latency", latency.figures),
    "long_thread": ("A thread of a million events", long_thread.figures),
    "real_cli": ("The real CLI", real_cli.figures),
    "stalled": ("Stalled readers", stalled.figures),
    "threads": ("Many threads", threads.figures),
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def run(name: str) -> None:
    title, measure = BENCHES[name]
    with tempfile.TemporaryDirectory(prefix="sb-") as place, trio.fail_after(LONGEST_S):
        show(title, await measure(Path(place)), say)


def main(names: list[str]) -> None:
    if len(names) == 1:
        trio.run(run, names[0])
        return
    say(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}")
    for name in names or BENCHES:  # each in a process of its own: none warms another's memory
        command = [sys.executable, "-m", "tests.bench", name]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
