"""A peer that stops reading: only its own connection ends, on time, and the stop waits for none.

wire-facts D5, hazard 1: real sockets, since only a kernel's buffers fill like a kernel's buffers.
"""

import socket
from dataclasses import replace

import httpx
import pytest
import trio
import wsproto.events as ws
from wsproto.connection import Connection, ConnectionType

from scuba.listener import ConnectionGone, ListenerConfig, Receive, Scope, Send, Stalled
from tests.kit.listening import Served, serving, tls_pair
from tests.scuba.listener.test_websocket import UPGRADE

SOON = ListenerConfig(write_s=0.5, grace_s=0.3)
LATER = ListenerConfig(write_s=60, grace_s=0.3)
GET = b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n"
PIECE = "x" * 20_000


class Flood:
    """An app that sends without end to `/flood` and `/ws`, and answers `/` at once."""

    def __init__(self) -> None:
        self.ended: list[tuple[float, OSError]] = []
        self.sent = 0
        self.over = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await self._pour(send, {"type": "websocket.send", "text": PIECE})
        await send({"type": "http.response.start", "status": 200})
        if scope["path"] == "/flood":
            body = {"type": "http.response.body", "body": PIECE.encode(), "more_body": True}
            await self._pour(send, body)
        await send({"type": "http.response.body", "body": b"ok"})

    async def _pour(self, send: Send, message: dict[str, object]) -> None:
        began = trio.current_time()
        try:
            while True:
                began = trio.current_time()
                await send(message)
                self.sent += 1
        except OSError as error:
            self.ended.append((trio.current_time() - began, error))
            self.over.set()
            raise

    async def stalled(self) -> None:
        """Wait until not one send has come back for a while."""
        before = -1
        while before != self.sent:
            before = self.sent
            await trio.sleep(0.1)


async def stall(served: Served, request: bytes) -> trio.SocketStream:
    """Return a connection that asked and then never reads."""
    raw = trio.socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await raw.connect((served.host, served.port))
    stream = trio.SocketStream(raw)
    await stream.send_all(request)
    return stream


async def swallow(stream: trio.abc.ReceiveStream) -> None:
    while await stream.receive_some():
        pass


@pytest.mark.parametrize("request_", [GET, UPGRADE], ids=["http", "websocket"])
async def test_a_stalled_peer_loses_its_connection_and_nobody_else_does(request_: bytes) -> None:
    app = Flood()
    with trio.fail_after(15):
        async with serving(app, SOON) as served, await stall(served, request_) as stalled:
            async with httpx.AsyncClient() as client:
                while not app.ended:
                    assert (await client.get(served.url)).text == "ok"
                    await trio.sleep(0.02)
            [(waited_s, error)] = app.ended
            with pytest.raises(trio.BrokenResourceError):  # a reset, not a polite end
                await swallow(stalled)

    assert isinstance(error, ConnectionGone)
    assert 0.5 <= waited_s < 5


async def test_a_peer_that_reads_again_at_the_last_moment_hears_why_it_is_closed() -> None:
    """Chapter 8.8: closed as a laggard, with every frame before it whole."""
    app = Flood()
    config = replace(SOON, ws_laggard_code=4408)
    with trio.fail_after(15):
        async with serving(app, config) as served, await stall(served, UPGRADE) as late:
            await app.stalled()
            await trio.sleep(config.write_s + 0.3)
            heard, data = Connection(ConnectionType.CLIENT), b""
            while b"\r\n\r\n" not in data:
                data += bytes(await late.receive_some())
            heard.receive_data(data.partition(b"\r\n\r\n")[2])
            texts, closed = 0, None
            while closed is None:
                for event in heard.events():
                    if isinstance(event, ws.TextMessage):
                        texts += event.message_finished
                    elif isinstance(event, ws.CloseConnection):
                        closed = event
                if closed is None:
                    heard.receive_data(bytes(await late.receive_some(65_536)))
            [(_, error)] = app.ended

    assert (closed.code, closed.reason) == (4408, "too slow a reader")
    assert texts == app.sent + 1  # the one that stalled came whole
    assert isinstance(error, Stalled)


async def test_a_stalled_peer_under_tls_loses_its_connection() -> None:
    app = Flood()
    server, client = tls_pair()
    with trio.fail_after(15):
        async with serving(app, replace(SOON, ssl_context=server)) as served:
            plain = await trio.open_tcp_stream(served.host, served.port)
            stream = trio.SSLStream(plain, client, server_hostname=served.host)
            await stream.send_all(UPGRADE)
            await app.over.wait()
            await trio.aclose_forcefully(stream)
        [(waited_s, error)] = app.ended

    assert isinstance(error, ConnectionGone)
    assert 0.5 <= waited_s < 5


@pytest.mark.parametrize("request_", [GET, UPGRADE], ids=["http", "websocket"])
async def test_the_stop_does_not_wait_for_a_stalled_peer(request_: bytes) -> None:
    app = Flood()
    with trio.fail_after(15):
        async with serving(app, LATER) as served, await stall(served, request_):
            await app.stalled()
            began = trio.current_time()
            served.stop.set()
            await served.done.wait()

    assert 0.3 <= trio.current_time() - began < 5


@pytest.mark.parametrize("request_", [GET, UPGRADE], ids=["http", "websocket"])
async def test_a_cancel_does_not_wait_for_a_stalled_peer(request_: bytes) -> None:
    app = Flood()
    with trio.fail_after(15):
        async with serving(app, LATER) as served, await stall(served, request_):
            await app.stalled()
            began = trio.current_time()
            served.scope.cancel()
            await served.done.wait()

    assert trio.current_time() - began < 5


async def test_a_peer_that_reads_slowly_keeps_its_connection() -> None:
    app = Flood()
    with trio.fail_after(15):
        async with serving(app, SOON) as served, await stall(served, GET) as slow:
            began = trio.current_time()
            while trio.current_time() < began + 1.5:
                await slow.receive_some(65_536)
                await trio.sleep(0.05)

            assert app.ended == []
