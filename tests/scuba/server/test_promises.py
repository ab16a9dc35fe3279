"""The promises of chapter 17 over real sockets: both engines, a restart, a second server."""

import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio
from trio_websocket import ConnectionClosed

from scuba import wire
from scuba.server import ServerConfig
from scuba.server.serve import serve_bubble
from scuba.server.store import SYSTEM, open_store
from tests.kit import store as fresh
from tests.kit.fake_server import FakeServer, Who, fake_server
from tests.kit.peer import Peer, connected, ready

Json = dict[str, Any]

on_both_engines = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)
on_postgres = pytest.mark.parametrize("engine", ["postgres"], indirect=True)


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


class Caller:
    """One principal over HTTP."""

    def __init__(self, server: FakeServer, who: Who) -> None:
        self._http = httpx.AsyncClient(
            base_url=server.url,
            headers={"authorization": f"Bearer {who.token}"},
            timeout=20,
            trust_env=False,
        )

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def append(self, thread_id: str, *events: Json) -> httpx.Response:
        return await self._http.post(f"/v1/threads/{thread_id}/events", json={"events": events})

    async def log(self, thread_id: str) -> list[Json]:
        answer = await self._http.get(f"/v1/threads/{thread_id}/events?after=0&limit=1000")
        page: Json = answer.json()
        assert not page.get("hasMore")
        events: list[Json] = page["events"]
        return events


def word(text: str, run: str, key: str | None = None) -> Json:
    chunk = {"type": "text-delta", "id": "t", "delta": text}
    event: Json = {"type": "message_part", "runId": run, "payload": {"chunk": chunk}}
    return event if key is None else {**event, "key": key}


def receipts(answer: httpx.Response) -> list[Json]:
    assert answer.status_code in (200, 201), answer.text
    events: list[Json] = answer.json()["events"]
    return [{name: event[name] for name in ("id", "seq", "ts", "key")} for event in events]


BAD = {"type": "run_finished", "runId": "run_never", "payload": {"status": "completed"}}


# --- appending ---------------------------------------------------------------------------------


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


# --- two servers -------------------------------------------------------------------------------


@on_postgres
async def test_the_same_key_is_the_same_receipt_from_another_server(
    engine: str, place: Path | str
) -> None:
    """Also when both are asked in the same moment: one lands."""
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


@on_postgres
async def test_writers_by_two_servers_leave_no_gap_and_are_seen_by_both(
    engine: str, place: Path | str
) -> None:
    """A subscriber at either server sees everything, once and in order."""
    async with (
        fake_server(place=place) as one,
        another(one, place) as two,
        ready(one.url, one.user.token) as here,
        ready(two.url, one.user.token) as there,
    ):
        thread = await one.make_thread(one.bot)
        start = len(await one.events(thread))
        for peer in (here, there):
            await peer.subscribe(thread, start)
            await peer.expect("server.subscribed")
            await peer.expect("server.caught_up")

        async def write(server: FakeServer, name: str) -> None:
            async with Caller(server, one.bot) as caller:
                for n in range(20):
                    receipts(
                        await caller.append(thread, word("x", f"msg_{name}_{n}", f"{name}{n}"))
                    )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, one, "a")
            nursery.start_soon(write, two, "b")
        upto = list(range(start + 1, start + 41))
        assert await here.seqs(thread, start + 40) == upto
        assert await there.seqs(thread, start + 40) == upto


@on_postgres
async def test_what_one_server_takes_away_is_gone_at_the_other_within_a_second(
    engine: str, place: Path | str
) -> None:
    """A grant and a token (16.4)."""
    async with (
        fake_server(place=place) as one,
        another(one, place) as two,
        ready(two.url, one.bot.token) as there,
    ):
        thread = await one.make_thread(one.bot)
        await there.subscribe(thread, "head")
        await there.expect("server.subscribed")
        await there.expect("server.caught_up")
        await one.revoke(thread, one.bot)
        with trio.fail_after(1.5):
            await there.expect("server.unsubscribed", threadId=thread, reason="revoked")
        await one.store.revoke_tokens(SYSTEM, one.bot.id, one.bot.caller.token_id)
        with trio.fail_after(1.5):
            assert await there.closed() == 4401


# --- following ---------------------------------------------------------------------------------


@on_both_engines
async def test_a_subscription_at_every_place_of_a_log_gets_the_rest_and_then_what_comes(
    engine: str,
) -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        await server.say(thread, "before")
        end = len(await server.events(thread))
        for after in range(end + 1):
            await peer.subscribe(thread, after)
            await peer.expect("server.subscribed", after=after, lastSeq=end)
            if after < end:
                assert await peer.seqs(thread, end) == list(range(after + 1, end + 1))
            await peer.expect("server.caught_up", seq=end)
            await server.say(thread, "live")
            assert await peer.seqs(thread, end + 3) == [end + 1, end + 2, end + 3]
            end += 3


class State:
    """What a client of the protocol keeps (8.4): positions, and what it has made of the events."""

    def __init__(self, threads: Sequence[str]) -> None:
        self.events: dict[str, list[Json]] = {thread: [] for thread in threads}
        self.grant_seq: int | None = None
        self.grants: dict[str, str] = {}

    async def resume(self, peer: Peer) -> None:
        after = {} if self.grant_seq is None else {"after": self.grant_seq}
        await peer.send("client.subscribe_grants", **after)
        for thread, events in self.events.items():
            await peer.subscribe(thread, len(events))

    def take(self, frame: Json) -> None:
        match frame["type"]:
            case "server.events":
                self.events[frame["threadId"]] += frame["events"]
            case "server.grants_snapshot":
                self.grant_seq = frame["grantSeq"]
                for grant in frame["grants"]:
                    self.grants[grant["target"]["threadId"]] = grant["role"]
            case "server.grant":
                self.grant_seq = frame["grantSeq"]
                self.grants[frame["grant"]["target"]["threadId"]] = frame["grant"]["role"]
            case _:
                pass


@on_both_engines
async def test_a_socket_cut_after_any_frame_changes_nothing_of_what_its_client_knows(
    engine: str,
) -> None:
    """Two threads and the grants, with things happening while the client is away."""

    async def follow(server: FakeServer, cut_after: int) -> tuple[State, list[str], int]:
        threads = [await server.make_thread(server.bot) for _ in range(2)]
        roles: dict[str, str] = dict.fromkeys(threads, "member")
        for thread in threads:
            await server.say(thread, "before")
        state, left = State(threads), cut_after
        happenings: list[Callable[[], Awaitable[object]]] = [
            lambda: server.say(threads[0], "one"),
            lambda: server.grant(threads[1], server.bot, "owner"),
            lambda: server.say(threads[1], "two"),
        ]
        roles[threads[1]] = "owner"

        def is_whole() -> bool:
            known = {thread: state.grants.get(thread) for thread in threads}
            heads = [len(state.events[thread]) for thread in threads]
            return not happenings and known == roles and heads == [9, 10]

        frames = 0
        while not is_whole():
            async with connected(server.url) as peer:
                await peer.send("client.auth", token=server.bot.token)
                await state.resume(peer)
                while not is_whole():
                    state.take(await peer.next())
                    frames, left = frames + 1, left - 1
                    if happenings and frames % 3 == 0:
                        await happenings.pop(0)()
                    if left == 0:
                        break
        return state, threads, frames

    async with fake_server() as server:
        cut_after, frames = 0, 1
        while frames > cut_after:
            cut_after += 1
            state, threads, frames = await follow(server, cut_after)
            for thread in threads:
                log = [event.seq for event in await server.events(thread)]
                assert [event["seq"] for event in state.events[thread]] == log
        assert cut_after > 8


# --- losing access, and lagging ----------------------------------------------------------------


@on_both_engines
async def test_after_a_revoke_is_answered_no_append_of_that_principal_lands(engine: str) -> None:
    """While it appends as fast as it can (3.7)."""
    async with fake_server() as server, Caller(server, server.bot) as bot:
        thread = await server.make_thread()
        for attempt in range(5):
            await server.grant(thread, server.bot)
            refused = trio.Event()

            async def write(attempt: int = attempt, refused: trio.Event = refused) -> None:
                n = 0
                while (
                    await bot.append(thread, word("x", f"msg_{attempt}_{n}"))
                ).status_code == 201:
                    n += 1
                refused.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                await trio.sleep(0.05)
                await server.revoke(thread, server.bot)
                answered_at = (await server.events(thread))[-1].seq
                with trio.fail_after(10):
                    await refused.wait()
            late = await server.events(thread, after=answered_at)
            assert [event for event in late if event.principal_id == server.bot.id] == []


@on_both_engines
async def test_a_token_that_is_revoked_takes_its_socket_along_within_a_second(engine: str) -> None:
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        await server.store.revoke_tokens(SYSTEM, server.bot.id, server.bot.caller.token_id)
        with trio.fail_after(1):
            assert await peer.closed() == 4401


@on_both_engines
async def test_a_stalled_reader_costs_nobody_anything_and_is_closed(engine: str) -> None:
    """Memory stays flat, others get all, the connection ends after `write_s`, the server stops."""
    stop, size, times = trio.Event(), 250_000, 30
    payload = msgspec.Raw(b'{"x":"' + b"y" * size + b'"}')
    async with open_store(fresh.fresh_place()) as store, trio.open_nursery() as nursery:
        _, made = await store.create_principal(
            SYSTEM, wire.NewPrincipal(principal_id="user-ada", kind="user")
        )
        assert made.token is not None
        token = str(made.token.token)
        ada = await store.identify(token)
        assert ada is not None
        _, thread = await store.create_thread(ada, wire.NewThread())
        config = ServerConfig(write_s=0.5)
        url = await nursery.start(partial(serve_bubble, store, config, stop=stop))
        async with ready(url, token) as quick, ready(url, token) as stalled:
            for peer in (stalled, quick):
                await peer.subscribe(thread.thread_id, "head")
                await peer.expect("server.subscribed")
                seen = (await peer.expect("server.caught_up"))["seq"]
            peaks: list[int] = []
            tracemalloc.start()
            try:
                for _ in range(2):
                    tracemalloc.reset_peak()
                    for _ in range(times):  # nobody reads at the stalled end
                        big = wire.NewEvent(type="x.a.b", payload=payload)
                        await store.append(ada, thread.thread_id, wire.NewEvents(events=[big]))
                        seen += 1
                        assert await quick.seqs(thread.thread_id, seen) == [seen]
                    peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            await trio.sleep(1)
            with pytest.raises(ConnectionClosed):
                await stalled.seqs(thread.thread_id, seen)

            assert peaks[1] < peaks[0] + size * times / 10
            stop.set()
            with trio.fail_after(5):
                while (frame := await quick.next())["type"] != "server.closing":
                    assert frame["type"] == "server.heartbeat"


async def test_a_stalled_reader_has_twenty_seconds_by_default() -> None:
    """Chapter 8.8; the clock of it is tested in the listener's own tests."""
    assert ServerConfig().write_s == 20.0
    assert wire.Close.LAGGARD == 4408
