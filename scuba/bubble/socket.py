"""One WebSocket connection: opened, authenticated, read without pause until it ends (8)."""

import ssl
from collections.abc import Awaitable, Callable
from typing import get_args

import msgspec
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream
from wsproto.utilities import LocalProtocolError

import scuba
from scuba import wire
from scuba.bubble.address import Address
from scuba.bubble.endings import Ending, Lost
from scuba.secret import Secret

CONNECT_S = 5.0
OPEN_S = 10.0
"""For TLS, the upgrade and `server.ready` together."""
SEND_S = 20.0
IDLE_HEARTBEATS = 2.5
SECOND_LOOK_S = 0.5
"""After a stall of this whole process, what has arrived meanwhile is read before we judge."""
CLIENT = f"scuba/{scuba.__version__}"
MESSAGE_BYTES = 4 * 2**20
"""Largest message taken; a server's frames are far smaller (12)."""

Dial = Callable[[Address, ssl.SSLContext | None], Awaitable[trio.abc.Stream]]

_encode = msgspec.json.Encoder().encode
_frame = msgspec.json.Decoder(wire.ServerFrame)
KNOWN = frozenset(kind.__struct_config__.tag for kind in get_args(wire.ServerFrame))


class _Kind(msgspec.Struct):
    type: str


_kind = msgspec.json.Decoder(_Kind)


async def dial(address: Address, context: ssl.SSLContext | None) -> trio.abc.Stream:
    """Return a stream to the server, by TLS if there is a context. Raises OSError or trio's."""
    tcp = await trio.open_tcp_stream(address.host, address.port)
    if context is None:
        return tcp
    tls = trio.SSLStream(tcp, context, server_hostname=address.host, https_compatible=True)
    try:
        await tls.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(tls)
        raise
    return tls


class WatchedStream(trio.abc.Stream):
    """A stream that knows when it last heard of its peer, and tells when it is over."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner
        self.heard_at = trio.current_time()
        self.on_end: Callable[[], None] = lambda: None

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what came, and note the time."""
        try:
            data = await self._inner.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.on_end()
            raise
        self.heard_at = trio.current_time()
        if not data:
            self.on_end()
        return bytes(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send everything."""
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until sending makes sense."""
        await self._inner.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream."""
        self.on_end()
        await self._inner.aclose()


class Socket:
    """An open connection. Whoever opened it closes it."""

    def __init__(self, web_socket: WebSocketConnection, stream: WatchedStream) -> None:
        self._web_socket = web_socket
        self._stream = stream
        self._idle_s = OPEN_S
        self._complaint = ""
        self._come_back_s: float | None = None

    async def authenticate(self, token: Secret, instance_id: str) -> wire.ServerReady:
        """Say who we are; return the server's answer, or raise Lost (8.2)."""
        ending = await self._try_send(_hello(token, instance_id))
        if ending is not None:
            raise Lost(ending)
        while True:
            frame = await self.receive()
            if isinstance(frame, wire.ServerReady):
                if frame.heartbeat_seconds > 0:
                    self._idle_s = IDLE_HEARTBEATS * frame.heartbeat_seconds
                return frame

    async def send(self, frame: msgspec.Struct) -> None:
        """Send a frame; raises Lost."""
        ending = await self._try_send(_encode(frame).decode())
        if ending is not None:
            raise Lost(ending)

    async def receive(self) -> wire.ServerFrame | None:
        """Return the next frame; None for one of a kind we do not know (1.3).

        Raises Lost when the connection has ended, after every frame before that was returned, or
        when nothing at all, not even a ping, came for 2½ heartbeats (8.7).
        """
        frame = _decoded(await self._message())
        if isinstance(frame, wire.ServerError) and frame.fatal:
            self._complaint = f"{frame.code}: {frame.detail}"
        elif isinstance(frame, wire.ServerClosing):
            self._come_back_s = frame.reconnect_after_ms / 1000
        return frame

    async def aclose(self) -> None:
        """Drop the connection; the server sees it end without a close frame."""
        await trio.aclose_forcefully(self._stream)

    async def _try_send(self, message: str) -> Ending | None:
        try:
            with trio.fail_after(SEND_S):
                await self._web_socket.send_message(message)
        except trio.TooSlowError:
            return Ending(detail=f"the server read nothing for {SEND_S:g} s")
        except ConnectionClosed as closed:
            return self._ending(closed)
        except LocalProtocolError:
            return Ending(detail="the server is closing the connection")
        return None

    async def _message(self) -> str | bytes:
        while True:
            heard_at = self._stream.heard_at
            with trio.move_on_at(heard_at + self._idle_s):
                try:
                    return await self._web_socket.get_message()
                except ConnectionClosed as closed:
                    raise Lost(self._ending(closed)) from None
            if self._stream.heard_at == heard_at:
                await trio.sleep(SECOND_LOOK_S)
            if self._stream.heard_at == heard_at:
                raise Lost(
                    Ending(detail=f"nothing came for {self._idle_s:g} s", code=wire.Close.HEARTBEAT)
                )

    def _ending(self, closed: ConnectionClosed) -> Ending:
        code = None if closed.reason is None else closed.reason.code
        reason = None if closed.reason is None else closed.reason.reason
        told = self._complaint or reason or "no reason given"
        return Ending(detail=f"closed with {code}: {told}", code=code, wait_s=self._come_back_s)


async def open_socket(
    nursery: trio.Nursery, stream: WatchedStream, address: Address, max_bytes: int = MESSAGE_BYTES
) -> Socket:
    """Upgrade a stream to a WebSocket whose reader runs in `nursery`; raises Lost.

    An upgrade that the server refuses crashes `nursery` with the library's ConnectionRejected.
    """
    with trio.CancelScope() as opening:
        stream.on_end = opening.cancel  # the library would wait for ever
        web_socket = await wrap_client_stream(
            nursery,
            stream,  # type: ignore[arg-type]  # typed as a SocketStream, documented as any Stream
            address.authority,
            address.socket_target,
            subprotocols=[wire.SUBPROTOCOL],
            max_message_size=max_bytes,
        )
        stream.on_end = lambda: None
        return Socket(web_socket, stream)
    raise Lost(Ending(detail="the server hung up during the upgrade"))


def _hello(token: Secret, instance_id: str) -> str:
    # Text at once: no variable whose repr would show the token in a traceback.
    return _encode(
        wire.ClientAuth(
            token=token.reveal(), instance_id=instance_id, protocol=wire.PROTOCOL, client=CLIENT
        )
    ).decode()


def _decoded(message: str | bytes) -> wire.ServerFrame | None:
    try:
        return wire.decode(_frame, message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(message, str) and _is_unknown(message):
            return None
        mistake = str(error)
    raise Lost(Ending(detail=f"a frame cannot be read: {mistake}"))


def _is_unknown(message: str) -> bool:
    try:
        return _kind.decode(message).type not in KNOWN
    except (msgspec.DecodeError, RecursionError):
        return False
