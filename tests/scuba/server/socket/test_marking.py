"""`client.cursor`: taken without a word, refused by frame, kept whatever the socket does."""

from typing import Any

import httpx
import pytest

from scuba.server import ServerConfig
from scuba.server.config import Rate
from tests.kit.fake_server import FakeServer, Who, fake_server
from tests.kit.peer import Peer, ready


async def cursors(server: FakeServer, thread: str, who: Who) -> dict[str, int]:
    headers = {"Authorization": f"Bearer {who.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
        answer = await http.get(f"/v1/threads/{thread}/cursors")
    return {item["consumer"]: item["seq"] for item in answer.json()["items"]}


async def handled(peer: Peer) -> None:
    """Return when every frame before this one was looked at."""
    await peer.send("client.ping", ref="p")
    await peer.expect("server.pong", ref="p")


async def test_a_cursor_has_no_answer_and_is_seen() -> None:
    """Chapter 10."""
    async with fake_server() as server:
        thread = await server.make_thread(server.bot)
        await server.say(thread, "hi")
        async with ready(server.url, server.user.token) as peer:
            for seq in (1, 5, 3):
                await peer.send("client.cursor", threadId=thread, seq=seq)
            await peer.send("client.cursor", threadId=thread, seq=2, consumer="phone")
            await handled(peer)
            assert await cursors(server, thread, server.bot) == {"default": 5, "phone": 2}
        assert await cursors(server, thread, server.bot) == {"default": 5, "phone": 2}


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"seq": 99}, {"code": "future_cursor", "lastSeq": 3}),
        ({"threadId": "thr_none", "seq": 1}, {"code": "thread_not_found"}),
    ],
)
async def test_a_refusal_names_the_thread_and_leaves_the_socket_open(
    fields: dict[str, Any], refusal: dict[str, Any]
) -> None:
    """Chapter 8.5."""
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        asked = {"threadId": thread, **fields}
        for _ in range(4):
            await peer.send("client.cursor", **asked)
            await peer.expect("server.error", fatal=False, threadId=asked["threadId"], **refusal)
        await handled(peer)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"seq": -1},
        {"seq": "1"},
        {"seq": 1, "consumer": "a b"},
        {"seq": 1, "consumer": "x" * 65},
        {"seq": 1, "threadId": None},
    ],
)
async def test_three_frames_that_are_none_close_the_socket(fields: dict[str, Any]) -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        for _ in range(3):
            await peer.send("client.cursor", **{"threadId": thread, **fields})
            await peer.expect("server.error", code="invalid_frame")

        assert await peer.closed() == 4400
        assert await cursors(server, thread, server.bot) == {}


async def test_too_many_cursors_are_slowed_down() -> None:
    config = ServerConfig(subscribes=Rate(0.001, 2))
    async with fake_server(config) as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        for seq in (1, 2, 3):
            await peer.send("client.cursor", threadId=thread, seq=seq)
        frame = await peer.expect("server.error", code="rate_limited", threadId=thread)

        assert frame["retryAfterMs"] > 0
        assert await cursors(server, thread, server.bot) == {"default": 2}


async def test_who_lost_the_thread_moves_no_cursor_there() -> None:
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        thread = await server.make_thread(server.bot)
        await peer.send("client.cursor", threadId=thread, seq=1)
        await handled(peer)
        await server.revoke(thread, server.bot)
        await peer.send("client.cursor", threadId=thread, seq=2)
        await peer.expect("server.error", code="thread_not_found", threadId=thread)

        assert await cursors(server, thread, server.user) == {}
