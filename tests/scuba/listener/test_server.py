"""The listener for real: sockets, TLS, Starlette above it, and the ways to stop it."""

import errno
import logging
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
import trio
import trio_websocket
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from scuba.errors import ScubaError
from scuba.listener import ListenerConfig, Receive, Scope, Send, open_listener
from scuba.listener.server import Server
from tests.kit.listening import Client, dialled, serving, tls_pair

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def greet(request: Request) -> Response:
    return JSONResponse({"scheme": request.url.scheme, "client": request.client})


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def count(request: Request) -> Response:
    async def numbers() -> AsyncIterator[str]:
        for number in range(3):
            yield f"{number},"

    return StreamingResponse(numbers())


async def chat(socket: WebSocket) -> None:
    await socket.accept(subprotocol="bubble.v1")
    async for text in socket.iter_text():
        await socket.send_text(text.upper())


STARLETTE = Starlette(
    routes=[
        Route("/", greet),
        Route("/echo", echo, methods=["POST"]),
        Route("/count", count),
        WebSocketRoute("/ws", chat),
    ]
)


@pytest.mark.parametrize("secure", [False, True])
async def test_starlette_runs_on_it(secure: bool) -> None:
    server, client_context = tls_pair() if secure else (None, None)
    config = ListenerConfig(ssl_context=server)
    verify = client_context if client_context is not None else True
    with trio.fail_after(15):
        async with serving(STARLETTE, config) as served:
            async with httpx.AsyncClient(base_url=served.url, verify=verify) as client:
                greeting = (await client.get("/")).json()
                assert greeting["scheme"] == ("https" if secure else "http")
                assert greeting["client"][0] == "127.0.0.1"
                assert (
                    await client.post("/echo", content=b"x" * 300_000)
                ).content == b"x" * 300_000
                assert (await client.get("/count")).text == "0,1,2,"
                assert (await client.get("/nowhere")).status_code == 404
                assert (await client.delete("/")).status_code == 405
                assert (await client.post("/echo", content=b"x" * 2_000_000)).status_code == 413
            async with trio_websocket.open_websocket_url(
                f"{served.ws_url}/ws", ssl_context=client_context, subprotocols=["bubble.v1"]
            ) as socket:
                assert socket.subprotocol == "bubble.v1"
                await socket.send_message("hello")
                assert await socket.get_message() == "HELLO"


async def test_a_client_without_tls_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    server, client_context = tls_pair()
    caplog.set_level(logging.INFO, "scuba")
    with trio.fail_after(15):
        async with serving(STARLETTE, ListenerConfig(ssl_context=server)) as served:
            async with await trio.open_tcp_stream(served.host, served.port) as plain:
                await plain.send_all(GET)
                while await plain.receive_some():
                    pass
            async with httpx.AsyncClient(verify=client_context) as client:
                assert (await client.get(served.url)).status_code == 200

    assert caplog.text.count("no TLS with a client") == 1


async def test_a_handshake_that_stalls_is_let_go() -> None:
    server, _ = tls_pair()
    with trio.fail_after(15):
        async with (
            serving(STARLETTE, ListenerConfig(ssl_context=server, header_s=0.3)) as served,
            await trio.open_tcp_stream(served.host, served.port) as silent,
        ):
            assert await silent.receive_some() == b""


# --- the stop -------------------------------------------------------------------------------------


async def slow(scope: Scope, receive: Receive, send: Send, *, seconds: float) -> None:
    await trio.sleep(seconds)
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"done"})


async def test_an_idle_connection_does_not_hold_up_the_stop() -> None:
    with trio.fail_after(15):
        async with serving(partial(slow, seconds=0)) as served:
            used, fresh = [await trio.open_tcp_stream(served.host, served.port) for _ in range(2)]
            async with used, fresh:
                await Client(used).ask(GET)
                began = trio.current_time()
                served.stop.set()
                await served.done.wait()
                assert await used.receive_some() == b""
            with pytest.raises(OSError, match="connect"):
                await trio.open_tcp_stream(served.host, served.port)

    assert trio.current_time() - began < 5


async def test_a_request_in_hand_is_finished_and_is_the_last() -> None:
    with trio.fail_after(15):
        async with serving(partial(slow, seconds=0.3)) as served:
            async with await trio.open_tcp_stream(served.host, served.port) as stream:
                await stream.send_all(GET)
                await trio.sleep(0.1)
                served.stop.set()
                answer = await Client(stream).answer()
                assert await stream.receive_some() == b""
            await served.done.wait()

    assert answer.body == b"done"
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_what_does_not_end_by_itself_is_ended(how: str) -> None:
    with trio.fail_after(15):
        async with (
            serving(partial(slow, seconds=60), ListenerConfig(grace_s=0.3)) as served,
            await trio.open_tcp_stream(served.host, served.port) as stream,
        ):
            await stream.send_all(GET)
            await trio.sleep(0.1)
            began = trio.current_time()
            if how == "stop":
                served.stop.set()
            else:
                served.scope.cancel()
            await served.done.wait()
            waited_s = trio.current_time() - began

    assert (waited_s >= 0.3) == (how == "stop")
    assert waited_s < 5


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_socket_whose_app_does_not_end_is_told_that_the_server_goes(how: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await trio.sleep_forever()

    with trio.fail_after(15):
        async with (
            serving(app, ListenerConfig(grace_s=0.3)) as served,
            dialled(served.host, served.port) as socket,
        ):
            if how == "stop":
                served.stop.set()
            else:
                served.scope.cancel()
            with pytest.raises(trio_websocket.ConnectionClosed) as caught:
                await socket.get_message()
            await served.done.wait()

    assert caught.value.reason is not None
    assert caught.value.reason.code == 1001


# --- listening ------------------------------------------------------------------------------------


async def test_a_port_in_use_is_told_with_a_next_step() -> None:
    [listener] = await open_listener("127.0.0.1", 0)
    async with listener:
        port = listener.socket.getsockname()[1]
        with pytest.raises(ScubaError) as caught:
            await open_listener("127.0.0.1", port)

    assert f"127.0.0.1:{port}" in caught.value.what
    assert "another port" in caught.value.hint


async def test_an_address_of_another_machine_is_told() -> None:
    with pytest.raises(ScubaError) as caught:
        await open_listener("192.0.2.1", 0)

    assert "no such address" in caught.value.hint


async def test_a_port_that_is_none_is_told() -> None:
    with pytest.raises(ScubaError) as caught:
        await open_listener("127.0.0.1", 65_536)

    assert "65536" in caught.value.what


class Starving(trio.abc.Listener[trio.SocketStream]):
    """A listener whose process runs out of file descriptors for a while."""

    def __init__(self, listener: trio.SocketListener) -> None:
        self._listener, self._failures = listener, 3

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self._listener.accept()

    async def aclose(self) -> None:
        await self._listener.aclose()


async def test_a_lack_of_descriptors_is_waited_out_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    [listener] = await open_listener("127.0.0.1", 0)
    server = Server(partial(slow, seconds=0), ListenerConfig())
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.accept, Starving(listener), nursery)
            async with await trio.open_tcp_stream(*listener.socket.getsockname()) as stream:
                assert (await Client(stream).ask(GET)).body == b"done"
            nursery.cancel_scope.cancel()

    assert caplog.text.count("Too many open files") == 1


async def test_beyond_the_limit_a_connection_waits_its_turn() -> None:
    with trio.fail_after(15):
        async with serving(partial(slow, seconds=0), ListenerConfig(max_connections=2)) as served:
            streams = [await trio.open_tcp_stream(served.host, served.port) for _ in range(3)]
            for stream in streams[:2]:
                assert (await Client(stream).ask(GET)).status == 200
            await streams[2].send_all(GET)
            with trio.move_on_after(0.2) as patience:
                await streams[2].receive_some()
            assert patience.cancelled_caught
            await streams[0].aclose()
            assert (await Client(streams[2]).answer()).status == 200
            for stream in streams:
                await stream.aclose()


async def test_small_writes_are_not_held_back() -> None:
    seen: list[int] = []

    class Looking(Server):
        async def _connection(self, stream: trio.SocketStream) -> None:
            seen.append(stream.getsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY))
            await super()._connection(stream)

    [listener] = await open_listener("127.0.0.1", 0)
    with trio.fail_after(15):
        async with trio.open_nursery() as nursery:
            server = Looking(partial(slow, seconds=0), ListenerConfig())
            nursery.start_soon(server.accept, listener, nursery)
            async with await trio.open_tcp_stream(*listener.socket.getsockname()) as stream:
                await Client(stream).ask(GET)
            nursery.cancel_scope.cancel()

    assert seen[0] != 0
