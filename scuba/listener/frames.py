"""WebSocket frames as whole messages of bounded size. No I/O; the caller brings the bytes."""

from collections.abc import Iterator
from dataclasses import dataclass

import wsproto.events as ws
from wsproto.connection import Connection, ConnectionState, ConnectionType

from scuba.listener.writing import ConnectionGone

TOO_BIG = 1009


@dataclass(frozen=True)
class Broken:
    """The peer broke the rules; close with `code`."""

    code: int
    reason: str


Heard = str | bytes | ws.Ping | ws.Pong | ws.CloseConnection | Broken


class Frames:
    """The server's end of one WebSocket."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._protocol = Connection(ConnectionType.SERVER)
        self._pieces: list[str | bytes | bytearray] = []
        self._size_bytes = 0
        self._broken = False
        self._deaf = False

    @property
    def is_open(self) -> bool:
        """Nobody has begun to close."""
        return self._protocol.state is ConnectionState.OPEN

    @property
    def is_closed(self) -> bool:
        """Both sides have closed; nothing more will be heard."""
        return self._protocol.state is ConnectionState.CLOSED

    def say(self, event: ws.Event) -> bytes:
        """Return the bytes of `event`. Raises `ConnectionGone` after a close frame of ours."""
        replying = isinstance(event, ws.CloseConnection)
        can = self.is_open or (replying and self._protocol.state is ConnectionState.REMOTE_CLOSING)
        if not can:
            raise ConnectionGone("the socket is closed")
        return bytes(self._protocol.send(event))

    def whole(self, frame: bytes) -> bytes:
        """Return a frame made by `text_frame`. Raises `ConnectionGone` after a close frame."""
        if not self.is_open:
            raise ConnectionGone("the socket is closed")
        return frame

    def hear(self, data: bytes) -> Iterator[Heard]:
        """Yield what the peer said: text and binary messages whole, control frames as they came.

        After `Broken`, which comes once, nothing but the peer's close is yielded, if anything.
        """
        if self._deaf or self.is_closed:
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events():
            if isinstance(event, ws.CloseConnection):
                yield self._closed(event)
            elif not self._broken:
                yield from self._collect(event)

    def _closed(self, event: ws.CloseConnection) -> Heard:
        if self._protocol.state in (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED):
            return event
        # wsproto says so when it could not parse; what follows makes no sense any more
        self._broken = self._deaf = True
        return Broken(int(event.code), event.reason or "")

    def _collect(self, event: ws.Event) -> Iterator[Heard]:
        if isinstance(event, ws.Ping | ws.Pong):
            yield event
        elif isinstance(event, ws.TextMessage | ws.BytesMessage):
            self._size_bytes += size_bytes(event.data)
            if self._size_bytes > self._limit_bytes:
                self._broken = True
                self._pieces.clear()
                yield Broken(TOO_BIG, f"a message may have {self._limit_bytes} bytes")
                return
            if event.data:
                self._pieces.append(event.data)
            if event.message_finished:
                empty = "" if isinstance(event, ws.TextMessage) else b""
                yield empty.join(self._pieces)  # type: ignore[arg-type]  # all of one kind
                self._pieces, self._size_bytes = [], 0


def size_bytes(data: str | bytes | bytearray) -> int:
    """Return the size of `data` on the wire."""
    return len(data.encode()) if isinstance(data, str) else len(data)


def text_frame(text: bytes) -> bytes:
    """Return one text message as a server's frame: unmasked, so that many sockets can share it."""
    size = len(text)
    if size < 126:
        head = bytes((0x81, size))
    elif size < 65_536:
        head = b"\x81\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x81\x7f" + size.to_bytes(8, "big")
    return head + text
