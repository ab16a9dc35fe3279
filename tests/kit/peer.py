"""A client of the socket that does what it is told, frame by frame: over a network, or bare."""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from scuba.listener import App, Message

Frame = dict[str, Any]


class Peer:
    """One open socket. Every wait ends after five seconds."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket

    async def send(self, type_: str, **fields: object) -> None:
        """Send one frame."""
        await self.socket.send_message(json.dumps({"type": type_, **fields}))

    async def next(self) -> Frame:
        """Return the next frame but heartbeats. Raises ConnectionClosed."""
        with trio.fail_after(5):
            while True:
                frame: Frame = json.loads(await self.socket.get_message())
                if frame["type"] != "server.heartbeat":
                    return frame

    async def expect(self, type_: str, **fields: object) -> Frame:
        """Return the next frame, which must be of that type and have these fields."""
        frame = await self.next()
        assert frame["type"] == type_, frame
        assert {**frame, **fields} == frame, frame
        return frame

    async def seqs(self, thread_id: str, last: int) -> list[int]:
        """Return the seqs of the events frames of a thread up to `last`; nothing else may come."""
        seen: list[int] = []
        while not seen or seen[-1] < last:
            frame = await self.expect("server.events", threadId=thread_id)
            seen += [event["seq"] for event in frame["events"]]
        return seen

    async def nothing(self, for_s: float = 0.1) -> None:
        """Check that no frame comes for a while."""
        with trio.move_on_after(for_s):
            raise AssertionError(await self.next())

    async def closed(self) -> int:
        """Return the code of the close, which must come next."""
        with pytest.raises(ConnectionClosed) as caught:
            await self.next()
        reason = caught.value.reason
        return 0 if reason is None else int(reason.code)

    async def subscribe(self, thread_id: str, after: int | str, **fields: object) -> None:
        """Ask for a thread."""
        await self.send("client.subscribe", threadId=thread_id, after=after, **fields)


@asynccontextmanager
async def connected(url: str, *, subprotocols: list[str] | None = None) -> AsyncIterator[Peer]:
    """Yield a peer that has not authenticated; `url` is the server's base."""
    parts = urlsplit(url)
    host, port = str(parts.hostname), int(parts.port or 80)
    async with await trio.open_tcp_stream(host, port) as stream, trio.open_nursery() as nursery:
        with trio.fail_after(5):
            socket = await wrap_client_stream(
                nursery, stream, parts.netloc, parts.path + "/v1/ws", subprotocols=subprotocols
            )
        yield Peer(socket)
        with trio.move_on_after(2):
            await socket.aclose()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def ready(url: str, token: str, **fields: object) -> AsyncIterator[Peer]:
    """Yield a peer that has authenticated."""
    async with connected(url) as peer:
        await peer.send("client.auth", token=token, **fields)
        await peer.expect("server.ready")
        yield peer


class BarePeer:
    """The other side of an ASGI socket without a network, so that time can be faked."""

    def __init__(self, *, pings: bool = True) -> None:
        self._to_app, self._inbox = trio.open_memory_channel[Message](math.inf)
        self._to_app.send_nowait({"type": "websocket.connect"})
        self._outbox, self.frames = trio.open_memory_channel[Message](math.inf)
        self._pings = pings
        self.flowing = trio.Event()
        """While it is not set, a send of the app does not end."""
        self.flowing.set()
        self.answers_pings = True

    async def run(self, app: App) -> None:
        """Serve the socket with `app` until it returns."""
        extensions: dict[str, Any] = {"scuba.websocket.ping": {}} if self._pings else {}
        scope = {
            "type": "websocket",
            "path": "/v1/ws",
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1),
            "subprotocols": ["bubble.v1"],
            "extensions": extensions,
        }
        await app(scope, self._inbox.receive, self._take)
        self._outbox.close()

    async def _take(self, message: Message) -> None:
        await self.flowing.wait()
        if message["type"] == "websocket.ping":
            if self.answers_pings:
                self._to_app.send_nowait({"type": "websocket.pong"})
            return
        await self._outbox.send(message)

    def send(self, type_: str, **fields: object) -> None:
        """Send one frame."""
        self.send_text(json.dumps({"type": type_, **fields}))

    def send_text(self, text: str) -> None:
        """Send any text."""
        self._to_app.send_nowait({"type": "websocket.receive", "text": text})

    @property
    def unread(self) -> int:
        """Return how many frames the app has not taken yet."""
        return self._inbox.statistics().current_buffer_used

    def leave(self) -> None:
        """Be gone."""
        self._to_app.send_nowait({"type": "websocket.disconnect", "code": 1006})

    async def next(self) -> Frame:
        """Return the next frame, or the accept or close as `{"type": …}`."""
        message = await self.frames.receive()
        if message["type"] == "websocket.send":
            frame: Frame = json.loads(message["text"])
            return frame
        return dict(message)


__all__ = ["BarePeer", "ConnectionClosed", "Peer", "connected", "ready"]
