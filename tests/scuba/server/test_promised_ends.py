"""What chapter 17 promises of ends: a grant, a token, a reader that takes nothing."""

import tracemalloc
from functools import partial
from itertools import count
from typing import cast

import msgspec
import pytest
import trio
from trio_websocket import ConnectionClosed

from actors.events import Role
from scuba import wire
from scuba.server import ServerConfig
from scuba.server.serve import serve_bubble
from scuba.server.store import SYSTEM, open_store
from tests.kit import store as fresh
from tests.kit.caller import Caller, Json, on_both_engines, word
from tests.kit.fake_server import fake_server
from tests.kit.peer import ready


def approval(n: int) -> Json:
    payload = {"toolCallId": "call_1", "decision": "deny"}
    return {"type": "tool_call_approval", "runId": "run_1", "payload": payload, "key": f"{n}"}


def speech(n: int) -> Json:
    return word("x", f"msg_{n}")


CALL: list[Json] = [
    {"type": "run_started", "runId": "run_1", "payload": {}},
    {
        "type": "message_part",
        "runId": "run_1",
        "payload": {
            "chunk": {
                "type": "tool-input-available",
                "toolCallId": "call_1",
                "toolName": "Bash",
                "input": {},
            }
        },
    },
]
ROUNDS = 5


@on_both_engines
@pytest.mark.parametrize("kind", ["speech", "approval"])
async def test_after_a_revoke_nothing_of_that_principal_lands(engine: str, kind: str) -> None:
    """While it speaks, or decides about a call, as fast as it can (3.7)."""
    make, role = (speech, "member") if kind == "speech" else (approval, "approver")
    numbers = count()

    async def speak_until_refused(bot: Caller, thread: str, heard: trio.Event) -> None:
        while (await bot.append(thread, make(next(numbers)))).status_code == 201:
            heard.set()

    async with fake_server() as server, Caller(server, server.bot) as bot:
        thread = await server.make_thread()
        await server.append(thread, CALL)
        for _ in range(ROUNDS):
            await server.grant(thread, server.bot, cast("Role", role))
            heard = trio.Event()
            with trio.fail_after(20):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(speak_until_refused, bot, thread, heard)
                    await heard.wait()
                    await server.revoke(thread, server.bot)
        log = await server.events(thread)

    present, spoken = False, 0
    for event in log:
        if event.type in ("participant_joined", "participant_left"):
            present = event.type == "participant_joined"
        elif event.principal_id == server.bot.id:
            spoken += 1
            assert present, event
    assert spoken >= ROUNDS


@on_both_engines
async def test_who_subscribes_while_it_is_revoked_hears_nothing_of_what_follows(
    engine: str,
) -> None:
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        for _ in range(ROUNDS):
            thread = await server.make_thread(server.bot)
            heard: list[int] = []

            async def subscribe(thread: str = thread, heard: list[int] = heard) -> None:
                for _ in range(10):
                    await peer.subscribe(thread, 0)
                await peer.send("client.ping", ref=thread)
                while (frame := await peer.next()).get("ref") != thread:
                    heard += [event["seq"] for event in frame.get("events", ())]

            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscribe)
                await server.revoke(thread, server.bot)
                revoked_at = (await server.events(thread))[-1].seq
                await server.say(thread, "secret")

            assert max(heard, default=0) <= revoked_at
        # What the last subscriptions were sent may come after the answer to the ping.
        with trio.move_on_after(0.5):
            while frame := await peer.next():
                assert all(event["seq"] <= revoked_at for event in frame.get("events", ())), frame


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


def test_a_stalled_reader_has_twenty_seconds_by_default() -> None:
    """Chapter 8.8; the clock of it is tested in the listener's own tests."""
    assert ServerConfig().write_s == 20.0
    assert wire.Close.LAGGARD == 4408
