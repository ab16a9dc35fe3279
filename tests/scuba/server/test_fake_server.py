"""The fake server's switches do what other tests rely on."""

import httpx
import pytest
import trio

from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.peer import connected, ready

EVENT = {"type": "x.a.b", "payload": {}, "key": "k"}


async def append(server: FakeServer, thread: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url) as http:
        return await http.post(
            f"/v1/threads/{thread}/events",
            json={"events": [EVENT]},
            headers={"Authorization": f"Bearer {server.user.token}"},
        )


async def test_appends_fail_as_often_as_ordered() -> None:
    async with fake_server() as server:
        thread = await server.make_thread()
        server.fail_next_append(429, "rate_limited", retry_after=3, times=2)
        answers = [await append(server, thread) for _ in range(3)]

        assert [answer.status_code for answer in answers] == [429, 429, 201]
        assert answers[0].headers["retry-after"] == "3"
        assert answers[0].json()["code"] == "rate_limited"
        assert server.served.count(("POST", f"/v1/threads/{thread}/events")) == 3


async def test_a_receipt_is_lost_after_the_commit() -> None:
    async with fake_server() as server:
        thread = await server.make_thread()
        server.drop_after_commit()
        with pytest.raises(httpx.TransportError):
            await append(server, thread)
        events = await server.wait_for(thread, lambda events: events[-1].key == "k")
        again = await append(server, thread)

        assert again.status_code == 200
        assert again.json()["events"][0]["seq"] == events[-1].seq
        assert again.json()["events"][0]["duplicate"] is True


async def test_sockets_stall_and_flow_again() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()
        server.stall_socket()
        await peer.subscribe(thread, 0)
        await peer.nothing(0.2)
        server.resume_socket()

        await peer.expect("server.subscribed")


async def test_sockets_close_with_any_code() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        assert server.socket_count == 1
        await server.close_sockets(4408)

        assert await peer.closed() == 4408


async def test_it_goes_down_and_comes_back_on_the_same_port() -> None:
    async with fake_server() as server:
        before = server.url
        async with ready(server.url, server.user.token) as peer:
            server.go_down()
            await peer.closed()
        with pytest.raises(OSError):  # noqa: PT011  # refused, in whichever way the system says it
            async with connected(server.url):
                pass
        await server.come_up()

        assert server.url == before
        async with ready(server.url, server.user.token):
            pass


async def test_requests_can_be_slow() -> None:
    async with fake_server() as server:
        thread = await server.make_thread(server.bot)
        server.delay_s = 0.3
        start = trio.current_time()
        await append(server, thread)

        assert trio.current_time() - start >= 0.3
