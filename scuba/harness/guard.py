"""The guard: a process that ends the sessions of a daemon that was killed and no longer can.

Run as `python -m scuba.harness.guard` with the life-line as its standard input: a line `+TAG` for
each session that begins, `-TAG` for each that has ended. The end of input is the daemon's end.
"""

import signal
import sys
from collections.abc import Iterable

from scuba.harness.proc import end_sessions

DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What is sent to a daemon's whole group is not for its guard."""


def left_open(lines: Iterable[bytes]) -> set[str]:
    """Return the tags of the sessions that had not ended when the lines did."""
    tags = set[str]()
    for line in lines:
        tag = line[1:].strip().decode("ascii", "replace")
        if not line.endswith(b"\n"):
            continue  # cut off in the middle: that session was never started
        if line.startswith(b"+"):
            tags.add(tag)
        elif line.startswith(b"-"):
            tags.discard(tag)
    return tags


def main() -> None:
    """Wait for the daemon's end; end what it has left."""
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    tags = left_open(sys.stdin.buffer)
    if tags:
        end_sessions(tags)


if __name__ == "__main__":
    main()
