"""Consumer cursors over HTTP (10): to say how far one is, to see how far others are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.kit.fake_server import FakeServer, fake_server


@asynccontextmanager
async def reading() -> AsyncIterator[tuple[FakeServer, httpx.AsyncClient, str]]:
    """Yield a server, its user's client, and the path of the cursors of a thread of four events."""
    async with fake_server() as server:
        thread = await server.make_thread(server.bot)
        await server.say(thread, "hi")
        headers = {"Authorization": f"Bearer {server.user.token}"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
            yield server, http, f"/v1/threads/{thread}/cursors"


async def test_a_cursor_is_moved_and_seen_by_the_others() -> None:
    """Chapter 10."""
    async with reading() as (server, http, path):
        answers = [await http.put(f"{path}/default", json={"seq": seq}) for seq in (2, 4, 3)]
        await http.put(f"{path}/phone.1~a-b_c", json={"seq": 0})
        bot = {"Authorization": f"Bearer {server.bot.token}"}
        items = (await http.get(path, headers=bot)).json()["items"]

        assert [answer.json() for answer in answers] == [{"seq": 2}, {"seq": 4}, {"seq": 4}]
        assert {answer.status_code for answer in answers} == {200}
        assert [(item["principalId"], item["consumer"], item["seq"]) for item in items] == [
            ("user-ada", "default", 4),
            ("user-ada", "phone.1~a-b_c", 0),
        ]
        assert all(item["updatedAt"].endswith("Z") for item in items)


async def test_a_cursor_is_no_event_and_marks_nothing_read() -> None:
    """Chapters 7.4 and 10."""
    async with reading() as (server, http, path):
        thread = path.split("/")[3]
        before = len(await server.events(thread))
        await http.get(f"/v1/threads/{thread}/events")
        assert (await http.get(path)).json() == {"items": []}
        await http.put(f"{path}/default", json={"seq": 1})

        assert len(await server.events(thread)) == before


async def test_a_cursor_beyond_the_log_is_told_where_it_ends() -> None:
    async with reading() as (_, http, path):
        answer = await http.put(f"{path}/default", json={"seq": 99})

        assert (answer.status_code, answer.json()["code"]) == (409, "future_cursor")
        assert answer.json()["lastSeq"] == 6


async def test_what_is_no_cursor_is_refused() -> None:
    bad: list[tuple[str, dict[str, object], int, str]] = [
        ("a%20b", {"seq": 1}, 400, "invalid_query"),
        ("%2e%2e%2fx", {"seq": 1}, 404, "not_found"),
        ("x" * 65, {"seq": 1}, 400, "invalid_query"),
        ("default", {"seq": -1}, 400, "invalid_json"),
        ("default", {"seq": 2**53}, 400, "invalid_json"),
        ("default", {"seq": "1"}, 400, "invalid_json"),
        ("default", {}, 400, "invalid_json"),
    ]
    async with reading() as (_, http, path):
        for consumer, body, status, code in bad:
            answer = await http.put(f"{path}/{consumer}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (status, code), (consumer, body)

        assert (await http.get(path)).json() == {"items": []}


async def test_an_unseen_thread_is_as_unknown_as_any() -> None:
    """Chapter 3.6."""
    async with reading() as (server, http, path):
        eve = {"Authorization": f"Bearer {(await server.make_user('eve')).token}"}
        for where in (path, "/v1/threads/thr_none/cursors"):
            put = await http.put(f"{where}/a%20b", json={"seq": 99}, headers=eve)
            got = await http.get(where, headers=eve)

            assert (put.status_code, put.json()["code"]) == (404, "thread_not_found")
            assert (got.status_code, got.json()["code"]) == (404, "thread_not_found")
