"""Two servers on one PostgreSQL are equal: what one commits, clients of the other see (16.5)."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from scuba import wire
from scuba.server import ServerConfig
from scuba.server.store import SYSTEM, Change, change_log, open_store
from scuba.server.store.database import Tx
from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.peer import Peer, ready

SOON_S = 1.0
"""How long a revocation may take to reach the other server (17)."""


@asynccontextmanager
async def two_servers(place: str) -> AsyncGenerator[tuple[FakeServer, FakeServer]]:
    async with (
        fake_server(place=place) as one,
        open_store(place) as store,
        trio.open_nursery() as nursery,
    ):
        other = FakeServer(store, ServerConfig(), nursery)
        await other.come_up()
        yield one, other
        nursery.cancel_scope.cancel()


async def following(peer: Peer, thread_id: str, head: int) -> None:
    await peer.subscribe(thread_id, head)
    await peer.expect("server.subscribed", lastSeq=head)
    await peer.expect("server.caught_up", seq=head)


async def test_what_both_servers_append_comes_once_and_in_order_to_clients_of_both(
    shared: str,
) -> None:
    async with two_servers(shared) as (one, other):
        thread_id = await one.make_thread(one.bot)
        head = (await one.store.thread(SYSTEM, thread_id)).thread.last_seq
        async with (
            ready(one.url, one.bot.token) as near,
            ready(other.url, one.bot.token) as far,
        ):
            for peer in (near, far):
                await following(peer, thread_id, head)
            with trio.fail_after(10):
                async with trio.open_nursery() as nursery:
                    for server in (one, other, one, other):
                        nursery.start_soon(_say_often, server, thread_id, one)
            last = head + 4 * 10 * 3
            for peer in (near, far):
                assert await peer.seqs(thread_id, last) == list(range(head + 1, last + 1))


async def _say_often(server: FakeServer, thread_id: str, whose: FakeServer) -> None:
    for _ in range(10):
        await server.say(thread_id, "hello", whose.user)


async def test_a_revoke_on_one_server_ends_the_subscription_on_the_other_and_nothing_follows(
    shared: str,
) -> None:
    async with two_servers(shared) as (one, other):
        thread_id = await one.make_thread(one.bot)
        head = (await one.store.thread(SYSTEM, thread_id)).thread.last_seq
        async with ready(other.url, one.bot.token) as far:
            await following(far, thread_id, head)
            await one.revoke(thread_id, one.bot)
            await other.say(thread_id, "after it", one.user)
            with trio.fail_after(SOON_S):
                await far.expect("server.unsubscribed", threadId=thread_id, reason="revoked")
            await far.nothing()


async def test_an_ended_token_or_principal_closes_the_socket_on_the_other_server(
    shared: str,
) -> None:
    async with two_servers(shared) as (one, other):
        token = await one.store.mint_token(SYSTEM, one.bot.id, wire.NewToken())
        assert token.token is not None
        async with ready(other.url, token.token) as far, ready(other.url, one.bot.token) as last:
            await one.store.revoke_tokens(SYSTEM, one.bot.id, token.token_id)
            with trio.fail_after(SOON_S):
                assert await far.closed() == wire.Close.UNAUTHENTICATED
            assert (await _whoami(other, token.token)) == 401
            assert (await _whoami(other, one.bot.token)) == 200
            change = wire.PrincipalChange(disabled_at="2030-01-01T00:00:00Z")
            await one.store.change_principal(SYSTEM, one.bot.id, change)
            with trio.fail_after(SOON_S):
                assert await last.closed() == wire.Close.REFUSED
            assert (await _whoami(other, one.bot.token)) == 403


async def _whoami(server: FakeServer, token: str) -> int:
    return (await _get(server, wire.Route.WHOAMI, token)).status_code


async def _get(server: FakeServer, path: str, token: str, **query: str | int) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.url) as client:
        headers = {"authorization": f"Bearer {token}"}
        return await client.get(path, headers=headers, params=query)


async def test_the_same_key_on_the_other_server_is_the_first_receipt(shared: str) -> None:
    async with two_servers(shared) as (one, other):
        thread_id = await one.make_thread()
        event = {"type": "run_started", "runId": "r", "key": "r/0", "payload": {}}
        first = await one.append(thread_id, [event])
        again = await other.append(thread_id, [event], one.user)

    assert again.events[0].id == first.events[0].id
    assert again.events[0].duplicate


async def test_a_grant_on_one_server_is_in_the_stream_of_the_other(shared: str) -> None:
    async with two_servers(shared) as (one, other), ready(other.url, one.bot.token) as far:
        await far.send("client.subscribe_grants")
        await far.expect("server.grants_snapshot")
        thread_id = await one.make_thread(one.bot)
        target = {"type": "thread", "threadId": thread_id}
        with trio.fail_after(SOON_S):
            granted = await far.expect("server.grant", action="granted")
        assert granted["grant"]["target"] == target
        await one.revoke(thread_id, one.bot)
        with trio.fail_after(SOON_S):
            revoked = await far.expect("server.grant", action="revoked")
        assert revoked["grantSeq"] == granted["grantSeq"] + 1


async def test_a_list_goes_on_at_the_other_server(shared: str) -> None:
    async with two_servers(shared) as (one, other):
        made = {await one.make_thread() for _ in range(3)}
        page = (await _get(one, "/v1/threads", one.user.token, limit=2)).json()
        rest = await _get(other, "/v1/threads", one.user.token, limit=2, cursor=page["nextCursor"])

    items = [*page["items"], *rest.json()["items"]]
    assert {thread["threadId"] for thread in items} == made
    assert "nextCursor" not in rest.json()


async def test_a_lost_wake_up_costs_a_second(shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_servers(shared) as (one, other):
        thread_id = await one.make_thread(one.bot)
        head = (await one.store.thread(SYSTEM, thread_id)).thread.last_seq
        async with ready(other.url, one.bot.token) as far:
            await following(far, thread_id, head)
            monkeypatch.setattr(change_log, "CHANNEL", "nobody_listens")
            await one.say(thread_id, "hello")
            with trio.fail_after(2.5):
                assert await far.seqs(thread_id, head + 3) == [head + 1, head + 2, head + 3]


async def test_a_server_that_was_out_of_touch_looks_at_everything_again(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_servers(shared) as (one, other):
        kept, lost = await one.make_thread(one.bot), await one.make_thread(one.bot)
        heads = [(await one.store.thread(SYSTEM, name)).thread.last_seq for name in (kept, lost)]
        token = await one.store.mint_token(SYSTEM, one.bot.id, wire.NewToken())
        assert token.token is not None
        async with (
            ready(other.url, one.bot.token) as far,
            ready(other.url, token.token) as ended,
        ):
            await following(far, kept, heads[0])
            await following(far, lost, heads[1])
            with monkeypatch.context() as patch:
                patch.setattr(change_log, "note", _note_and_trim)
                await one.say(kept, "hello")
                await one.revoke(lost, one.bot)
                await one.store.revoke_tokens(SYSTEM, one.bot.id, token.token_id)
            await one.make_thread()  # the next number tells that some are missing
            frames = [await far.next(), await far.next()]
            assert await ended.closed() == wire.Close.UNAUTHENTICATED

    said = [frame for frame in frames if frame["type"] == "server.events"]
    gone = [frame for frame in frames if frame["type"] == "server.unsubscribed"]
    assert [event["seq"] for event in said[0]["events"]] == [heads[0] + n for n in (1, 2, 3)]
    assert [(frame["threadId"], frame["reason"]) for frame in gone] == [(lost, "revoked")]


def _note_and_trim(tx: Tx, server: str, changes: Iterable[Change]) -> int:
    """Note a batch as one that was trimmed before anybody heard of it."""
    row = tx.one(
        "INSERT INTO change_log (change_seq, at_ms, server, changes)"
        " SELECT MAX(change_seq) + 2, 0, ?, '[]' FROM change_log RETURNING change_seq",
        (server,),
    )
    assert row is not None
    assert list(changes)
    return int(row[0])
