"""One WebSocket between an app and a connection (RFC 6455), from the handshake to the close."""

import logging
from collections.abc import Callable
from functools import partial

import h11
import trio
import wsproto.events as ws
from wsproto.utilities import generate_accept_token

from scuba.errors import Problem
from scuba.listener.asgi import App, Message, Scope, contained
from scuba.listener.config import ListenerConfig
from scuba.listener.exchange import Exchange
from scuba.listener.frames import Broken, Frames, Heard, text_frame
from scuba.listener.writing import GOODBYE_S, LINGER_S, ConnectionGone, Stalled

logger = logging.getLogger(__name__)

NORMAL, GOING_AWAY, FAULT = 1000, 1001, 1011
ABNORMAL = 1006
"""What an app is told when there was no close frame; never on the wire."""


class WebSocket:
    """The `receive` and `send` of one socket; a task of its own reads, so pings are answered.

    Words beyond ASGI, told as scope extensions. `scuba.websocket.ping`: the app may send
    `websocket.ping`, and then, only then, receives `websocket.pong` when the peer answers.
    `scuba.websocket.frame`: `websocket.send` may carry, as `frame`, what `text_frame` returned;
    so many sockets share the bytes of one message.
    """

    def __init__(self, exchange: Exchange, key: bytes, config: ListenerConfig) -> None:
        self._exchange, self._key = exchange, key
        self._stream = exchange.stream
        self._frames = Frames(config.ws_frame_bytes)
        self._laggard = ws.CloseConnection(config.ws_laggard_code, "too slow a reader")
        self._deliver, self._inbox = trio.open_memory_channel[Message](0)
        self._accepted = trio.Event()
        self._denied = False
        self._connect_told = False
        self._over: tuple[int, str] | None = None
        self._silent = trio.Event()
        self._pings = 0

    async def run(self, app: App, scope: Scope) -> None:
        """Serve until the app has returned and the socket is closed; cancelled: close at once."""
        call = partial(app, scope, self.receive, self.send)
        name = self._exchange.name
        with self._deliver, self._inbox:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, name=f"{name} reader")
                    fine = await contained(call, name, self._is_over)
                    await self._finish(fine=fine)
                    nursery.cancel_scope.cancel()
            finally:
                open_ = self._frames.is_open and not self._stream.gone
                if self._accepted.is_set() and open_:
                    with trio.move_on_after(GOODBYE_S, shield=True):
                        await self._try_to_close(GOING_AWAY)

    async def receive(self) -> Message:
        """Return the next of connect, receive, pong, and in the end disconnect, again and again."""
        if not self._connect_told:
            self._connect_told = True
            await trio.lowlevel.checkpoint()
            return {"type": "websocket.connect"}
        try:
            return await self._inbox.receive()
        except trio.EndOfChannel:
            code, reason = self._over or (ABNORMAL, "")
            return {"type": "websocket.disconnect", "code": code, "reason": reason}

    async def send(self, message: Message) -> None:
        """Take one message; each leaves in one write.

        Raises `ConnectionGone` when the socket is closed, `RuntimeError` out of turn.
        """
        if self._accepted.is_set():
            await self._send_accepted(message)
        else:
            await self._send_answer(message)

    async def _send_answer(self, message: Message) -> None:
        match message["type"]:
            case "websocket.accept" if not self._denied:
                await self._accept(message)
            case "websocket.close" if not self._denied:
                self._denied = True
                await self._exchange.refuse(Problem(403, "forbidden", "this socket was refused"))
            case "websocket.http.response.start" | "websocket.http.response.body" as kind:
                self._denied = True
                kind = kind.removeprefix("websocket.")
                await self._exchange.send({**message, "type": kind})
            case other:
                raise RuntimeError(f"{other} out of turn")

    async def _send_accepted(self, message: Message) -> None:
        match message["type"]:
            case "websocket.send" if message.get("frame") is not None:
                await self._write(partial(self._frames.whole, message["frame"]))
            case "websocket.send" if message.get("text") is not None:
                frame = text_frame(message["text"].encode())
                await self._write(partial(self._frames.whole, frame))
            case "websocket.send":
                await self._say(ws.BytesMessage(data=bytes(message["bytes"])))
            case "websocket.ping":
                self._pings += 1
                await self._say(ws.Ping())
            case "websocket.close":
                code, reason = int(message.get("code", NORMAL)), message.get("reason") or ""
                await self._say(ws.CloseConnection(code=code, reason=reason))
                self._end(code, reason)
            case other:
                raise RuntimeError(f"{other} out of turn")

    async def _accept(self, message: Message) -> None:
        headers = [
            (b"upgrade", b"websocket"),
            (b"connection", b"upgrade"),
            (b"sec-websocket-accept", generate_accept_token(self._key)),
            *((bytes(name), bytes(value)) for name, value in message.get("headers", ())),
        ]
        if message.get("subprotocol"):
            headers.append((b"sec-websocket-protocol", message["subprotocol"].encode("ascii")))
        response = h11.InformationalResponse(
            status_code=101, headers=headers, reason=b"Switching Protocols"
        )
        await self._stream.write(lambda: self._exchange.http.send(response))
        self._accepted.set()

    async def _say(self, event: ws.Event) -> None:
        await self._write(partial(self._frames.say, event))

    async def _write(self, render: Callable[[], bytes]) -> None:
        try:
            await self._stream.write(render, partial(self._frames.say, self._laggard))
        except Stalled:
            self._end(self._laggard.code, self._laggard.reason or "")
            raise

    async def _try_to_say(self, event: ws.Event) -> None:
        """Say what is only owed to a peer that is still there."""
        try:
            await self._say(event)
        except ConnectionGone as gone:
            logger.debug("%s: %s", self._exchange.name, gone)

    async def _try_to_close(self, code: int, reason: str = "") -> None:
        await self._try_to_say(ws.CloseConnection(code=code, reason=reason))

    def _end(self, code: int, reason: str) -> None:
        """Tell the app, after what was delivered, that this is all; the first word counts."""
        if self._over is None:
            self._over = (code, reason)
            self._deliver.close()

    def _is_over(self) -> bool:
        return self._over is not None or self._exchange.left()

    async def _finish(self, *, fine: bool) -> None:
        """The app has returned; close what it left open, and give the peer time to do so too."""
        if not self._accepted.is_set():
            try:
                await self._exchange.finish(fine=fine)
            except ConnectionGone as gone:
                logger.debug("%s: %s", self._exchange.name, gone)
            return
        if self._over is None:
            code = NORMAL if fine else FAULT
            await self._try_to_close(code)
            self._end(code, "")
        with trio.move_on_after(LINGER_S):
            await self._silent.wait()

    async def _read(self) -> None:
        """Hear the peer until it has closed. What comes before the accept waits for it."""
        data = self._exchange.http.trailing_data[0]
        while not self._frames.is_closed:
            if not data and not (data := await self._stream.read()):
                await self._stream.cut()  # no close frame: there is no half-open socket
                break
            await self._accepted.wait()
            for heard in self._frames.hear(data):
                await self._take(heard)
            data = b""
        self._end(ABNORMAL, "")
        self._silent.set()

    async def _take(self, heard: Heard) -> None:
        match heard:
            case str():
                await self._hand_over({"type": "websocket.receive", "text": heard})
            case bytes():
                await self._hand_over({"type": "websocket.receive", "bytes": heard})
            case ws.Ping():
                await self._try_to_say(heard.response())
            case ws.Pong():
                if self._pings:
                    self._pings -= 1
                    await self._hand_over({"type": "websocket.pong"})
            case ws.CloseConnection(code=code, reason=reason):
                if not self._frames.is_closed:
                    await self._try_to_say(heard.response())
                self._end(int(code), reason or "")
            case Broken(code, reason):
                await self._try_to_close(code, reason)
                self._end(code, reason)

    async def _hand_over(self, message: Message) -> None:
        try:
            await self._deliver.send(message)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            logger.debug("%s: a message after the close", self._exchange.name)
