"""What chapter 17 promises of appends, over HTTP: gapless, whole, and one receipt for one key."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from scuba.server.store import open_store
from tests.kit import store as fresh
from tests.kit.caller import Caller, Json, on_both_engines, receipts, word
from tests.kit.fake_server import FakeServer, Who, fake_server

BAD = {"type": "run_finished", "runId": "run_never", "payload": {"status": "completed"}}


@pytest.fixture
def place(engine: str, tmp_path: Path) -> Path | str:
    """Where a store is that outlives a server."""
    return tmp_path / "bubble.db" if engine == "sqlite" else fresh.fresh_place() or ""


@asynccontextmanager
async def another(server: FakeServer, place: Path | str) -> AsyncGenerator[FakeServer]:
    """Serve the same store by a server of its own, with the same people."""
    async with (
        open_store(place, limits=server.config.limits) as store,
        trio.open_nursery() as nursery,
    ):
        other = FakeServer(store, server.config, nursery)
        other.user, other.bot = server.user, server.bot
        await other.come_up()
        yield other
        nursery.cancel_scope.cancel()


@on_both_engines
async def test_many_writers_and_their_refusals_leave_no_gap(engine: str) -> None:
    """Gapless seqs; what was acknowledged is where it was said to be; what was refused, nowhere."""
    acknowledged: list[Json] = []

    async def write(server: FakeServer, who: Who, thread: str) -> None:
        async with Caller(server, who) as caller:
            for n in range(15):
                events = [word(f"{n}", f"msg_{who.id}_{n}", f"{n}/{k}") for k in range(3)]
                if n % 3 == 2:
                    refused = await caller.append(thread, *events, BAD)
                    assert refused.status_code == 404, refused.text
                else:
                    acknowledged.extend(receipts(await caller.append(thread, *events)))

    async with fake_server() as server:
        bots = [await server.make_bot(f"bot-{n}") for n in range(6)]
        thread = await server.make_thread(*bots)
        async with trio.open_nursery() as nursery:
            for bot in bots:
                nursery.start_soon(write, server, bot, thread)
        async with Caller(server, server.user) as reader:
            log = await reader.log(thread)

    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    kept = {event["seq"]: event["id"] for event in log if event["type"] == "message_part"}
    assert kept == {one["seq"]: one["id"] for one in acknowledged}
    assert len(kept) == 6 * 10 * 3


@on_both_engines
async def test_a_batch_is_whole_or_nothing_wherever_it_is_bad(engine: str) -> None:
    async with fake_server() as server, Caller(server, server.bot) as bot:
        thread = await server.make_thread(server.bot)
        before = await bot.log(thread)
        good = [word(f"{n}", "msg_1", f"k{n}") for n in range(4)]
        for index in range(5):
            refused = await bot.append(thread, *good[:index], BAD, *good[index:])
            assert refused.json()["index"] == index

        assert await bot.log(thread) == before
        seqs = [one["seq"] for one in receipts(await bot.append(thread, *good))]
        assert seqs == list(range(len(before) + 1, len(before) + 5))


@on_both_engines
async def test_the_same_key_is_the_same_receipt_after_a_restart(
    engine: str, place: Path | str
) -> None:
    events = [word("hi", "msg_1", "a"), word("ho", "msg_1", "b")]
    async with fake_server(place=place) as server:
        thread = await server.make_thread(server.bot)
        async with Caller(server, server.bot) as bot:
            first = receipts(await bot.append(thread, *events))

    async with another(server, place) as back, Caller(back, server.bot) as bot:
        again = await bot.append(thread, *events)

        assert again.status_code == 200
        assert receipts(again) == first
        assert all(event["duplicate"] for event in again.json()["events"])


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
async def test_two_servers_asked_in_one_moment_give_one_receipt(
    engine: str, place: Path | str
) -> None:
    """One lands; more of two servers is in `test_two_servers.py`."""
    async with fake_server(place=place) as one, another(one, place) as two:
        thread = await one.make_thread(one.bot)
        async with Caller(one, one.bot) as here, Caller(two, one.bot) as there:
            for n in range(10):
                event = word("hi", f"msg_{n}", f"k{n}")
                told: list[httpx.Response] = []

                async def append(
                    by: Caller, event: Json = event, told: list[httpx.Response] = told
                ) -> None:
                    told.append(await by.append(thread, event))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(append, here)
                    nursery.start_soon(append, there)

                assert sorted(answer.status_code for answer in told) == [200, 201]
                assert receipts(told[0]) == receipts(told[1])
            log = await there.log(thread)
        assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
