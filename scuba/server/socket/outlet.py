"""The way out of a socket: one writer, answers before events, and a heartbeat (8.7)."""

from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import trio

from scuba import wire
from scuba.server.socket.frames import Parcel, write_frame

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_WAITING_BYTES = 262_144
"""Answers in hand before the reader has to wait for the writer."""


class Outlet:
    """Holds answers until the writer sends them. Only the writer calls what awaits, but `room`."""

    def __init__(self, send: Send, *, heartbeat_s: float, pings: bool, frames: bool) -> None:
        self._send, self._heartbeat_s = send, heartbeat_s
        self._pings, self._frames = pings, frames
        self._waiting: deque[bytes] = deque()
        self._waiting_size = 0
        self._work = trio.Event()
        self._drained = trio.Event()
        self._sent_at = trio.current_time()
        self._beat_due = False

    def put(self, frame: wire.ServerFrame) -> None:
        """Have a frame sent before any event that is not on its way yet."""
        text = write_frame(frame)
        self._waiting.append(text)
        self._waiting_size += len(text)
        self.wake()

    def wake(self) -> None:
        """There is something to do for the writer."""
        self._work.set()

    async def room(self) -> None:
        """Return when the client has taken enough answers to be given more."""
        while self._waiting_size >= MOST_WAITING_BYTES:
            self._drained = trio.Event()
            await self._drained.wait()

    async def flush(self) -> None:
        """Send the answers that wait. Raises OSError when the peer has gone."""
        while self._waiting:
            text = self._waiting.popleft()
            self._waiting_size -= len(text)
            await self.text(text)
        self._drained.set()

    async def text(self, text: bytes) -> None:
        """Send one text frame. Raises OSError when the peer has gone."""
        await self.parcel(Parcel(text))

    async def parcel(self, parcel: Parcel) -> None:
        """Send one frame that others may be sending too. Raises OSError when the peer has gone."""
        self._sent_at = trio.current_time()
        if self._frames:
            await self._send({"type": "websocket.send", "frame": parcel.frame})
        else:
            await self._send({"type": "websocket.send", "text": parcel.text.decode()})

    async def rest(self) -> None:
        """Return when there is work, or a heartbeat is due."""
        await self._work.wait()
        self._work = trio.Event()

    async def pulse(self) -> None:
        """Have a heartbeat sent each time that one is due, until cancelled.

        A task of its own, so that the writer has no deadline to set whenever it rests.
        """
        while True:
            await trio.sleep(self._heartbeat_s)
            self._beat_due = True
            self.wake()

    async def beat(self) -> None:
        """Send what keeps the connection visibly alive, if it is time to."""
        if not self._beat_due:
            return
        self._beat_due = False
        if self._pings:
            await self._send({"type": "websocket.ping"})
        if self._sent_at <= trio.current_time() - self._heartbeat_s:
            await self.text(write_frame(wire.ServerHeartbeat(time=utc_now())))


def utc_now() -> str:
    """Return this moment as the wire says it (1.4)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
