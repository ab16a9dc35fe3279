"""Run the benches and print what they found as Markdown: `python -m tests.bench [NAME …]`."""

import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import trio

from tests.bench import frames, latency, real_cli, server, threads
from tests.bench.measure import Figure, show

BENCHES: dict[str, tuple[str, Callable[[Path], Awaitable[list[Figure]]]]] = {
    "frames": ("Frames", frames.figures),
    "latency": ("Added latency", latency.figures),
    "real_cli": ("The real CLI", real_cli.figures),
    "server": ("The server", server.figures),
    "threads": ("Many threads", threads.figures),
}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(names: list[str]) -> None:
    say(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, trio")
    for name in names or list(BENCHES):
        title, measure = BENCHES[name]
        with tempfile.TemporaryDirectory(prefix="sb-") as place:
            with trio.fail_after(300):
                show(title, await measure(Path(place)), say)


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
