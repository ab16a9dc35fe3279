"""The CLI's pipes: what comes until they end, and the last words on stderr."""

from collections import deque

import trio

READ_BYTES = 1 << 18
STDERR_LINES, STDERR_LINE_BYTES = 50, 2_000


async def receive(pipe: trio.abc.ReceiveStream | None) -> bytes | bytearray:
    """Return the next bytes of a pipe; none when it has ended or was closed."""
    assert pipe is not None
    try:
        return await pipe.receive_some(READ_BYTES)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


class LastWords:
    """The last lines of stderr, shortened."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=STDERR_LINES)

    @property
    def lines(self) -> list[str]:
        """Return them, oldest first."""
        return list(self._lines)

    async def read(self, pipe: trio.abc.ReceiveStream | None, done: trio.Event) -> None:
        """Read to the end; never let the CLI wait for us to read (field case 10.4)."""
        rest = b""
        while chunk := await receive(pipe):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-STDERR_LINE_BYTES:]
            self._lines.extend(_shown(line) for line in lines[-STDERR_LINES:] if line)
        if rest:
            self._lines.append(_shown(rest))
        done.set()


def _shown(line: bytes) -> str:
    return line[:STDERR_LINE_BYTES].decode(errors="replace").rstrip()
