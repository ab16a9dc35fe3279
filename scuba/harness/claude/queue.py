"""FrameQueue: from a reader that never waits to a session that may be slow; nothing is dropped."""

import tempfile
from typing import IO

import trio

from scuba.harness.claude.frames import Exited, Frame, decode

LIMIT_BYTES = 8 << 20
BATCH_FRAMES = 1_000
"""How many are taken at once: mapping them must not hold up the loop."""
BATCH_BYTES = 1 << 20
"""How much of the file is read back at once: decoding it must not hold up the loop."""


class FrameQueue:
    """Keeps order. Beyond `limit_bytes` in memory, lines wait in an unnamed file it owns.

    One reader puts, one session gets; both live on the same trio loop.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._frames: list[Frame] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._in_file = 0
        self._read_at = 0
        self._last: Exited | None = None
        self._ready = trio.Event()

    @property
    def waiting(self) -> int:
        """Return how many frames nobody has taken yet."""
        return len(self._frames) + self._in_file + (self._last is not None)

    def put(self, frame: Frame, line: bytes) -> None:
        """Add a frame; `line` is what it was decoded from, without its line feed."""
        if self._in_file or self._bytes + len(line) > self._limit_bytes:
            self._spill(line)
        else:
            self._frames.append(frame)
            self._bytes += len(line)
        self._ready.set()

    def close(self, last: Exited) -> None:
        """Add the last frame. Nothing may be put after it."""
        self._last = last
        self._ready.set()

    async def get(self) -> list[Frame]:
        """Return what waits, oldest first, at least one: all of it, or as much as goes at once.

        Atomic under cancellation. After `Exited` was returned it would wait for ever.
        """
        if self._ready.is_set():
            await trio.lowlevel.checkpoint()
        else:
            await self._ready.wait()
        batch, self._frames = self._frames[:BATCH_FRAMES], self._frames[BATCH_FRAMES:]
        if not self._frames:
            self._bytes = 0
        if not batch and self._in_file:
            batch = self._unspill()
        if not self._frames and not self._in_file:
            if self._last is not None:
                batch.append(self._last)
                self._last = None
            self._ready = trio.Event()
        return batch

    def discard(self) -> None:
        """Give the file back to the system."""
        if self._file is not None:
            self._file.close()
            self._file, self._in_file, self._read_at = None, 0, 0

    def _spill(self, line: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed by discard
        self._file.seek(0, 2)
        self._file.write(line + b"\n")
        self._in_file += 1

    def _unspill(self) -> list[Frame]:
        assert self._file is not None
        self._file.seek(self._read_at)
        batch: list[Frame] = []
        end = self._read_at + BATCH_BYTES
        while self._in_file and len(batch) < BATCH_FRAMES and self._file.tell() < end:
            batch.append(decode(self._file.readline()[:-1]))
            self._in_file -= 1
        self._read_at = self._file.tell()
        if not self._in_file:
            self.discard()
        return batch
