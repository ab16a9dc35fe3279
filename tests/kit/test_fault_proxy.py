"""The proxy does what its switches say, and nothing while none is set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
import trio_websocket

from scuba.listener import Receive, Scope, Send
from tests.kit.fault_proxy import FaultProxy, fault_proxy
from tests.kit.listening import dialled, serving


class Ledger:
    """An app that notes what it did, answers with its body, and echoes on sockets."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.closed = trio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._chat(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.done.append(f"{scope['method']} {scope['path']}")
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    async def _chat(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})
        self.done.append(f"closed {message['code']}")
        self.closed.set()


@asynccontextmanager
async def behind() -> AsyncIterator[tuple[Ledger, FaultProxy, httpx.AsyncClient]]:
    """A server, the proxy before it, and a client of the proxy."""
    ledger = Ledger()
    with trio.fail_after(10):
        async with (
            serving(ledger) as served,
            fault_proxy(served.host, served.port) as proxy,
            httpx.AsyncClient(base_url=proxy.url) as client,
        ):
            yield ledger, proxy, client


def socket_url(proxy: FaultProxy) -> str:
    return f"{proxy.url.replace('http', 'ws', 1)}/ws"


async def test_with_no_switch_set_nothing_is_changed() -> None:
    async with behind() as (ledger, proxy, client):
        for size in (0, 5, 1_000_000):
            assert (await client.post("/a", content=b"x" * size)).content == b"x" * size
        async with trio_websocket.open_websocket_url(socket_url(proxy)) as socket:
            await socket.send_message("hello")
            assert await socket.get_message() == "hello"

        assert ledger.done[:3] == ["POST /a"] * 3
        assert proxy.requests == ["POST /a HTTP/1.1"] * 3 + ["GET /ws HTTP/1.1"]
        assert proxy.connections == 2


async def test_dropped_connections_are_gone_and_new_ones_welcome() -> None:
    async with behind() as (_, proxy, client):
        async with dialled(proxy.host, proxy.port) as socket:
            proxy.drop()
            with pytest.raises(trio_websocket.ConnectionClosed):
                await socket.get_message()

        assert (await client.get("/")).status_code == 200


async def test_refused_connections_are_refused_and_the_port_stays_ours() -> None:
    async with behind() as (_, proxy, client):
        assert (await client.get("/")).status_code == 200
        proxy.refuse()
        assert (await client.get("/")).status_code == 200  # what is connected stays
        proxy.drop()
        for _ in range(3):
            with pytest.raises(httpx.ConnectError):
                await httpx.AsyncClient().get(proxy.url)
        proxy.accept()
        async with httpx.AsyncClient() as another:
            assert (await another.get(proxy.url)).status_code == 200


@pytest.mark.parametrize("way", ["up", "down"])
async def test_a_paused_way_closes_nothing_and_loses_nothing(way: str) -> None:
    async with behind() as (ledger, proxy, client):
        proxy.pause(way)  # type: ignore[arg-type]  # one of the two
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/late", timeout=0.2)
        assert ledger.done == ([] if way == "up" else ["GET /late"])

        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert (await client.post("/", content=b"kept")).content == b"kept"

            nursery.start_soon(ask)
            await trio.sleep(0.1)
            proxy.resume()


async def test_a_cut_comes_after_so_many_bytes() -> None:
    async with behind() as (_, proxy, client):
        proxy.cut_after(200_000)
        async with client.stream("POST", "/", content=b"x" * 900_000) as response:
            received, cut = 0, False
            try:
                async for piece in response.aiter_raw():
                    received += len(piece)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                cut = True
        assert cut
        assert 199_000 < received <= 200_000

        assert (await client.post("/", content=b"whole")).content == b"whole"


async def test_each_piece_is_delayed() -> None:
    async with behind() as (_, proxy, client):
        proxy.delay_s = 0.25
        began = trio.current_time()
        await client.get("/")
        assert trio.current_time() - began >= 0.5

        proxy.clear()
        began = trio.current_time()
        await client.get("/")
        assert trio.current_time() - began < 0.5


async def test_a_swallowed_answer_was_committed() -> None:
    async with behind() as (ledger, proxy, client):
        proxy.swallow(r"^POST /events ")
        assert (await client.get("/events")).status_code == 200
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await client.post("/events", content=b"x")
        assert ledger.done == ["GET /events", "POST /events"]

        assert (await client.post("/events", content=b"x")).content == b"x"


async def test_matching_requests_are_answered_in_the_servers_place() -> None:
    async with behind() as (ledger, proxy, client):
        proxy.answer(r"^POST ", 429, {"Retry-After": "1"}, b"slow down", times=2)
        answers = [await client.post("/", content=b"x") for _ in range(3)]
        await client.get("/")

        assert [answer.status_code for answer in answers] == [429, 429, 200]
        assert answers[0].headers["retry-after"] == "1"
        assert answers[0].content == b"slow down"
        assert ledger.done == ["POST /", "GET /"]


async def test_a_client_that_leaves_is_gone_for_the_server_too() -> None:
    async with behind() as (ledger, proxy, _):
        async with trio_websocket.open_websocket_url(socket_url(proxy)):
            assert proxy.live == 1
        await ledger.closed.wait()

        assert ledger.done == ["closed 1000"]
