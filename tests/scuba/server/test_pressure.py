"""What the server does for clients that ask too often, for too much, or with a dead token."""

from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
import trio

from scuba import wire
from scuba.errors import ConfigError, Problem
from scuba.server import ServerConfig, Store, check_config, open_store, serve_bubble
from scuba.server.config import Rate
from scuba.server.store import SYSTEM, founding, grants
from scuba.server.store.engine import Write
from tests.kit.fake_server import FakeServer, Who, fake_server
from tests.kit.peer import ConnectionClosed, Peer, connected, ready

GRANTS = "client.subscribe_grants"


def bearer(who: Who) -> dict[str, str]:
    return {"Authorization": f"Bearer {who.token}"}


def http(server: FakeServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=10)


# --- dead tokens -------------------------------------------------------------------------------


async def test_a_dead_token_loses_its_socket_and_who_hammers_with_it_is_slowed_down() -> None:
    """Field case 8.1, the server's side."""
    async with (
        fake_server() as server,
        ready(server.url, server.bot.token) as peer,
        http(server) as client,
    ):
        await server.store.revoke_tokens(server.user.caller, server.bot.id, None)
        with trio.fail_after(1):
            assert await peer.closed() == 4401

        answers = [
            await client.get("/v1/auth/whoami", headers=bearer(server.bot)) for _ in range(25)
        ]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [401] * 20 + [429] * 5
        assert {answer.text for answer in answers[:2]}  # says no more than that
        waits = [int(answer.headers["retry-after"]) for answer in answers[20:]]
        assert all(1 <= wait <= 3 for wait in waits)
        async with connected(server.url) as again:
            await again.send("client.auth", token=server.bot.token)
            assert await again.closed() == 4429
        good = await client.get("/v1/auth/whoami", headers=bearer(server.user))
        assert good.status_code == 200  # from the same address


# --- sizes -------------------------------------------------------------------------------------


async def test_no_frame_is_bigger_than_was_told_whatever_the_events() -> None:
    """Field case 8.5: the limits are told, and the largest events keep to them."""
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        limits = wire.Limits()
        thread = await server.make_thread()
        room = limits.event_bytes - 200
        for _ in range(2):
            await server.append(thread, [{"type": "x.a.b", "payload": {"x": "y" * room}}])
            await server.append(thread, [{"type": "x.a.b", "payload": {"x": "é" * 40_000}}] * 5)
        with pytest.raises(Problem) as caught:
            await server.append(
                thread,
                [
                    {"type": "x.a.b", "payload": {}},
                    {"type": "x.a.b", "payload": {"x": "y" * limits.event_bytes}},
                ],
            )
        assert (caught.value.code, caught.value.fields["index"]) == ("event_too_large", 1)

        end = (await server.events(thread))[-1].seq
        await peer.subscribe(thread, 0)
        await peer.expect("server.subscribed")
        seen: list[int] = []
        while not seen or seen[-1] < end:
            text = await peer.socket.get_message()
            assert len(str(text).encode()) <= limits.frame_bytes
            seen += [event["seq"] for event in msgspec.json.decode(text)["events"]]
        assert seen == list(range(1, end + 1))


def test_a_frame_must_hold_the_largest_event() -> None:
    """Field case 8.5: else a client would close on an event for ever."""
    limits = wire.Limits(event_bytes=262_144, frame_bytes=262_144)
    with pytest.raises(ConfigError, match="frameBytes"):
        check_config(ServerConfig(limits=limits))


# --- too often ---------------------------------------------------------------------------------


async def test_429_says_when_and_then_the_final_text_gets_through() -> None:
    """Field case 8.11, the server's side: whole seconds, for this principal only."""
    async with fake_server(ServerConfig(appends=Rate(2, 2))) as server, http(server) as client:
        thread = await server.make_thread(server.bot)
        path = f"/v1/threads/{thread}/events"
        post = partial(client.post, path, headers=bearer(server.bot))
        run = {"runId": "run_1"}
        start = {"type": "run_started", "key": "s", **run}
        assert (await post(json={"events": [start]})).status_code == 201
        await post(json={"events": [part("a", 1)]})

        final = {"type": "run_finished", "payload": {"status": "completed"}, "key": "f", **run}
        last = {"events": [part("b", 2), final]}
        refused = await post(json=last)
        assert refused.status_code == 429
        assert refused.json()["code"] == "rate_limited"
        assert refused.headers["retry-after"] == "1"
        other = await client.post(
            path, headers=bearer(server.user), json={"events": [{"type": "x.a.b"}]}
        )
        assert other.status_code == 201

        await trio.sleep(int(refused.headers["retry-after"]))
        assert (await post(json=last)).status_code == 201
        assert [event.type for event in await server.events(thread)][-2:] == [
            "message_part",
            "run_finished",
        ]


def part(text: str, number: int) -> dict[str, Any]:
    chunk = {"type": "text-delta", "id": "t", "delta": text}
    payload = {"chunk": chunk}
    return {"type": "message_part", "runId": "run_1", "key": f"p{number}", "payload": payload}


async def test_a_thousand_threads_are_joined_by_one_socket_and_no_request() -> None:
    """Field case 14.1, the server's side: under a limit of 20 requests a second."""
    config = ServerConfig(requests=Rate(20, 20), appends=Rate(20, 20))
    async with fake_server(config) as server:
        threads = set(await many_threads(server, 1_000))
        first = min(threads)
        await server.append(
            first, [{"type": "run_started", "runId": "run_left", "payload": {}}], server.bot
        )
        began = trio.current_time()
        async with ready(server.url, server.bot.token) as peer:
            found = await snapshot(peer)
            assert {grant["target"]["threadId"] for grant in found} == threads
            for grant in found:
                await peer.subscribe(grant["target"]["threadId"], grant["lastSeq"])
            caught_up: set[str] = set()
            while len(caught_up) < len(threads):
                frame = await peer.next()
                assert frame["type"] in ("server.subscribed", "server.caught_up"), frame
                if frame["type"] == "server.caught_up":
                    caught_up.add(frame["threadId"])
            await server.say(max(threads), "hello")
            await peer.expect("server.events", threadId=max(threads))

        left = {grant["target"]["threadId"]: grant["openRuns"] for grant in found}
        assert left[first] == ["run_left"]
        assert server.served == []  # not one request
        assert trio.current_time() - began < 20


async def many_threads(server: FakeServer, count: int) -> list[str]:
    """Return threads that the bot is on, made in one write."""

    def make(w: Write) -> list[str]:
        made = [
            founding.create(w, server.user.caller, wire.NewThread(), None) for _ in range(count)
        ]
        for _, thread in made:
            target = wire.Target(type="thread", thread_id=thread.thread_id)
            grant = wire.NewGrant(target=target, principal_id=server.bot.id, role="member")
            grants.put(w, SYSTEM, grant)
        return [thread.thread_id for _, thread in made]

    return await server.store.set_up(make)


async def snapshot(peer: Peer) -> list[dict[str, Any]]:
    await peer.send(GRANTS)
    found: list[dict[str, Any]] = []
    while True:
        frame = await peer.expect("server.grants_snapshot")
        found += frame["grants"]
        if not frame["more"]:
            return found


# --- the grants stream -------------------------------------------------------------------------


async def test_a_grants_stream_that_fails_comes_back_with_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Field case 8.12, the server's side: two failures, then a resume; or a snapshot."""
    async with fake_server() as server:
        kept, lost = [await server.make_thread(server.bot) for _ in range(2)]
        async with ready(server.url, server.bot.token) as peer:
            assert len(await snapshot(peer)) == 2
        await server.revoke(lost, server.bot)
        new = await server.make_thread(server.bot)

        asked = 0
        since = Store.grants_since

        async def failing(store: Store, principal_id: str, after: int) -> Any:  # noqa: ANN401  # as it is
            nonlocal asked
            asked += 1
            if asked <= 2:
                raise Problem(503, "unavailable", "on order")
            return await since(store, principal_id, after)

        monkeypatch.setattr(Store, "grants_since", failing)
        for _ in range(2):
            async with ready(server.url, server.bot.token) as peer:
                await peer.send(GRANTS, after=2)
                assert await peer.closed() == 1011
        async with ready(server.url, server.bot.token) as peer:
            await peer.send(GRANTS, after=2, ref="g")
            revoked = await peer.expect("server.grant", grantSeq=3, action="revoked")
            granted = await peer.expect("server.grant", grantSeq=4, action="granted")
            await peer.expect("server.caught_up", stream="grants", grantSeq=4)
            assert revoked["grant"]["target"]["threadId"] == lost
            assert granted["grant"]["target"]["threadId"] == new
            truth = {grant["target"]["threadId"] for grant in await snapshot(peer)}
            assert truth == {kept, new}


# --- slow readers ------------------------------------------------------------------------------


async def test_a_reader_that_wakes_up_too_late_is_told_so_after_whole_frames() -> None:
    """Chapter 8.8: it has missed nothing up to there, and nobody else has noticed."""
    config = ServerConfig(write_s=0.8)
    async with (
        fake_server(config) as server,
        ready(server.url, server.bot.token) as late,
        ready(server.url, server.user.token) as quick,
    ):
        thread = await server.make_thread(server.bot)
        for _ in range(10):
            await server.append(thread, [{"type": "x.a.b", "payload": {"x": "y" * 200_000}}] * 5)
        end = (await server.events(thread))[-1].seq
        await quick.subscribe(thread, 0)
        await quick.expect("server.subscribed")
        assert await quick.seqs(thread, end) == list(range(1, end + 1))
        await late.subscribe(thread, 0)
        await trio.sleep(config.write_s + 0.8)  # a kernel's buffers fill in real time

        await late.expect("server.subscribed")
        seen: list[int] = []
        code = 0
        while not code:
            try:
                frame = await late.expect("server.events")
            except ConnectionClosed as closed:
                code = 0 if closed.reason is None else closed.reason.code
            else:
                seen += [event["seq"] for event in frame["events"]]
        assert code == 4408
        assert seen == list(range(1, len(seen) + 1))
        assert 0 < len(seen) < end
        await server.say(thread, "and on")
        await quick.expect("server.caught_up")
        assert await quick.seqs(thread, end + 3) == [end + 1, end + 2, end + 3]


# --- sockets -----------------------------------------------------------------------------------


async def test_a_refused_socket_takes_no_place(nursery: trio.Nursery) -> None:
    """Chapter 12: what was refused or has left can be taken by somebody else."""
    async with fake_server(ServerConfig(sockets_per_principal=1)) as server:
        for _ in range(3):
            async with (
                ready(server.url, server.bot.token),
                connected(server.url) as second,
            ):
                await second.send("client.auth", token=server.bot.token)
                assert await second.closed() == 4429
            await server.sockets_left(0)


async def test_every_socket_is_told_to_come_back_at_another_moment() -> None:
    """Chapter 8.9: so that they do not come back all at once."""
    stop = trio.Event()
    async with open_store(None) as store, trio.open_nursery() as nursery:
        new = wire.NewPrincipal(principal_id="user-ada", kind="user")
        await store.create_principal(SYSTEM, new)
        token = await store.mint_token(SYSTEM, "user-ada", wire.NewToken())
        url = await nursery.start(partial(serve_bubble, store, ServerConfig(), stop=stop))
        hints: list[int] = []

        async def wait(*, task_status: trio.TaskStatus[None]) -> None:
            async with ready(url, str(token.token)) as peer:
                task_status.started()
                frame = await peer.expect("server.closing", reason="restart")
                hints.append(frame["reconnectAfterMs"])
                assert await peer.closed() == 1001

        with trio.fail_after(20):
            async with trio.open_nursery() as peers:
                for _ in range(8):
                    await peers.start(wait)
                stop.set()

    assert all(500 <= hint < 3_000 for hint in hints)
    assert len(set(hints)) > 1
