"""The way out of a socket: one writer, answers before events, and a heartbeat (8.7)."""

from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import trio

from scuba import wire
from scuba.server.socket.frames import write_frame

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_WAITING = 262_144
"""Characters of answers in hand before the reader has to wait for the writer."""


class Outlet:
    """Holds answers until the writer sends them. Only the writer calls what awaits, but `room`."""

    def __init__(self, send: Send, *, heartbeat_s: float, pings: bool) -> None:
        self._send, self._heartbeat_s, self._pings = send, heartbeat_s, pings
        self._waiting: deque[str] = deque()
        self._waiting_size = 0
        self._work = trio.Event()
        self._drained = trio.Event()
        self._sent_at = trio.current_time()
        self._beat_at = self._sent_at + heartbeat_s

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
        while self._waiting_size >= MOST_WAITING:
            self._drained = trio.Event()
            await self._drained.wait()

    async def flush(self) -> None:
        """Send the answers that wait. Raises OSError when the peer has gone."""
        while self._waiting:
            text = self._waiting.popleft()
            self._waiting_size -= len(text)
            await self.text(text)
        self._drained.set()

    async def text(self, text: str) -> None:
        """Send one text frame. Raises OSError when the peer has gone."""
        self._sent_at = trio.current_time()
        await self._send({"type": "websocket.send", "text": text})

    async def rest(self) -> None:
        """Return when there is work, or a heartbeat is due."""
        with trio.move_on_at(self._beat_at):
            await self._work.wait()
        self._work = trio.Event()

    async def beat(self) -> None:
        """Send what keeps the connection visibly alive, if it is time to."""
        now = trio.current_time()
        if now < self._beat_at:
            return
        self._beat_at = now + self._heartbeat_s
        if self._pings:
            await self._send({"type": "websocket.ping"})
        if self._sent_at <= now - self._heartbeat_s:
            await self.text(write_frame(wire.ServerHeartbeat(time=utc_now())))


def utc_now() -> str:
    """Return this moment as the wire says it (1.4)."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
