"""The socket over a real listener: what is subscribed comes once each, and stops when it must."""

import json
from functools import partial
from typing import Any

import httpx
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scuba import wire
from scuba.server import ServerConfig
from scuba.server.config import Rate
from scuba.server.store import SYSTEM
from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.peer import connected, ready

GRANTS = "client.subscribe_grants"


async def head(server: FakeServer, thread: str) -> int:
    return (await server.events(thread))[-1].seq


# --- the first frame ---------------------------------------------------------------------------


async def test_ready_says_what_the_client_must_know() -> None:
    """Chapter 8.2."""
    async with fake_server() as server, connected(server.url, subprotocols=["bubble.v1"]) as peer:
        assert peer.socket.subprotocol == "bubble.v1"
        await peer.send("client.auth", token=server.bot.token, protocol="1.0", instanceId="a")
        frame = await peer.expect(
            "server.ready",
            logEpoch=server.store.log_epoch,
            protocol="1.0",
            heartbeatSeconds=20.0,
            otherInstances=0,
        )

        assert frame["principal"]["principalId"] == "bot-research"
        assert frame["limits"]["frameBytes"] == 524_288


async def test_another_instance_of_the_same_principal_is_counted() -> None:
    async with (
        fake_server() as server,
        ready(server.url, server.bot.token, instanceId="a"),
        connected(server.url) as second,
        connected(server.url) as third,
    ):
        await second.send("client.auth", token=server.bot.token, instanceId="b")
        await second.expect("server.ready", otherInstances=1)
        await third.send("client.auth", token=server.bot.token, instanceId="a")
        await third.expect("server.ready", otherInstances=1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"type":"client.ping"}', 4401),
        ("not json", 4401),
        ('{"type":"client.auth","token":"no"}', 4401),
        ('{"type":"client.auth"}', 4401),
        ('{"type":"client.auth","token":"TOKEN","protocol":"1.1"}', 4426),
        ('{"type":"client.auth","token":"TOKEN","protocol":"2.0"}', 4426),
        ('{"type":"client.auth","token":"TOKEN","protocol":"x"}', 4426),
    ],
)
async def test_a_wrong_first_frame_closes(text: str, code: int) -> None:
    async with fake_server() as server, connected(server.url) as peer:
        await peer.socket.send_message(text.replace("TOKEN", server.bot.token))

        assert await peer.closed() == code


async def test_guessing_tokens_by_socket_is_slowed_down_too() -> None:
    async with fake_server(ServerConfig(failed_logins=Rate(0.001, 1))) as server:
        codes: list[int] = []
        for _ in range(2):
            async with connected(server.url) as peer:
                await peer.send("client.auth", token="guess")
                codes.append(await peer.closed())

        assert codes == [4401, 4429]


async def test_a_foreign_page_gets_no_socket() -> None:
    """Field case 13.3."""
    async with fake_server() as server:
        upgrade = {
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }  # fmt: skip
        async with httpx.AsyncClient(base_url=server.url) as http:
            for foreign in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
                answer = await http.get("/v1/ws", headers={**upgrade, **foreign})

                assert answer.status_code == 403
                assert answer.json()["code"] == "forbidden"


async def test_a_principal_has_so_many_sockets() -> None:
    config = ServerConfig(sockets_per_principal=2)
    async with (
        fake_server(config) as server,
        ready(server.url, server.bot.token),
        ready(server.url, server.bot.token),
        ready(server.url, server.user.token),
        connected(server.url) as third,
    ):
        await third.send("client.auth", token=server.bot.token)

        assert await third.closed() == 4429


async def test_a_server_has_so_many_sockets() -> None:
    async with (
        fake_server(ServerConfig(sockets=1)) as server,
        connected(server.url),
        connected(server.url) as second,
    ):
        assert await second.closed() == 4429


# --- following a thread ------------------------------------------------------------------------


async def test_from_every_place_of_a_log_the_rest_comes_then_live_once_each() -> None:
    """Chapters 8.3 and 17."""
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread(server.bot)
        for n in range(4):
            await server.say(thread, str(n))
        end = await head(server, thread)
        for after in range(end + 1):
            await peer.subscribe(thread, after, ref=f"r{after}")
            await peer.expect("server.subscribed", after=after, lastSeq=end, ref=f"r{after}")
            if after < end:
                assert await peer.seqs(thread, end) == list(range(after + 1, end + 1))
            await peer.expect("server.caught_up", threadId=thread, seq=end)
            await server.say(thread, "live")
            assert await peer.seqs(thread, end + 3) == [end + 1, end + 2, end + 3]
            end += 3


async def test_head_means_from_now_on() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()
        end = await head(server, thread)
        await peer.subscribe(thread, "head")
        await peer.expect("server.subscribed", after=end, lastSeq=end)
        await peer.expect("server.caught_up", seq=end)
        await server.say(thread, "now")

        assert await peer.seqs(thread, end + 3) == [end + 1, end + 2, end + 3]


async def test_subscribing_while_others_append_misses_and_doubles_nothing() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()

        async def talk() -> None:
            for n in range(60):
                await server.say(thread, str(n))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk)
            for _ in range(20):  # each replaces the one before
                await peer.subscribe(thread, 0)
            seen: list[int] = []
            while not seen or seen[-1] < 182:
                frame = await peer.next()
                if frame["type"] == "server.subscribed":
                    seen = []
                elif frame["type"] == "server.events":
                    seen += [event["seq"] for event in frame["events"]]

        assert seen == list(range(1, 183))


async def test_a_long_log_comes_in_frames_of_at_most_200_and_the_frame_size() -> None:
    config = ServerConfig(limits=wire.Limits(frame_bytes=65_536))
    async with fake_server(config) as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()
        small = [{"type": "x.a.b", "payload": {}}] * 250
        large = [{"type": "x.a.b", "payload": {"x": "y" * 30_000}}] * 8
        await server.append(thread, small)
        await server.append(thread, large)
        await peer.subscribe(thread, 0)
        await peer.expect("server.subscribed")
        seen: list[int] = []
        while not seen or seen[-1] < 260:
            text = await peer.socket.get_message()
            events = json.loads(text)["events"]
            assert len(events) <= 200
            assert len(text) <= 65_536
            seen += [event["seq"] for event in events]

        assert seen == list(range(1, 261))


async def test_a_key_reaches_its_author_only() -> None:
    async with (
        fake_server() as server,
        ready(server.url, server.user.token) as author,
        ready(server.url, server.bot.token) as other,
    ):
        thread = await server.make_thread(server.bot)
        end = await head(server, thread)
        for after in (end, end):  # live, then from the store
            for peer in (author, other):
                await peer.subscribe(thread, after)
                await peer.expect("server.subscribed")
            if await head(server, thread) == end:
                await server.append(thread, [{"type": "x.a.b", "payload": {}, "key": "secret"}])
            for peer, shown in ((author, True), (other, False)):
                frame = await peer.next()
                while frame["type"] != "server.events":
                    frame = await peer.next()
                assert ("key" in frame["events"][0]) is shown


async def test_unsubscribed_means_no_more_of_it() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()
        await peer.subscribe(thread, "head")
        await peer.expect("server.subscribed")
        await peer.expect("server.caught_up")
        await peer.send("client.unsubscribe", threadId=thread, ref="u")
        await peer.expect("server.unsubscribed", threadId=thread, reason="client", ref="u")
        await server.say(thread, "unheard")

        await peer.nothing()


async def test_refusals_concern_one_subscription() -> None:
    """Chapter 8.5."""
    config = ServerConfig(limits=wire.Limits(subscriptions=2))
    async with fake_server(config) as server, ready(server.url, server.user.token) as peer:
        threads = [await server.make_thread() for _ in range(3)]
        hidden = await server.make_thread(owner=await server.make_user("user-eve"))
        end = await head(server, threads[0])
        refused = partial(peer.expect, "server.error", fatal=False)
        for thread in (hidden, "thr_unknown1"):
            await peer.subscribe(thread, 0, ref="x")
            await refused(code="thread_not_found", threadId=thread, ref="x")
        await peer.subscribe(threads[0], end + 1)
        await refused(code="future_cursor", lastSeq=end)
        await peer.subscribe(threads[0], 0, logEpoch="another")
        await refused(code="epoch_changed", logEpoch=server.store.log_epoch)
        await peer.subscribe(threads[0], -1)
        await refused(code="invalid_frame")
        for thread in threads[:2]:
            await peer.subscribe(thread, "head", logEpoch=server.store.log_epoch)
            await peer.expect("server.subscribed")
            await peer.expect("server.caught_up")
        await peer.subscribe(threads[2], 0)
        await refused(code="too_many_subscriptions", threadId=threads[2])
        await server.say(threads[1], "still there")

        await peer.expect("server.events", threadId=threads[1])


async def test_subscribing_too_fast_is_told_how_long_to_wait() -> None:
    config = ServerConfig(subscribes=Rate(1, 2))
    async with fake_server(config) as server, ready(server.url, server.user.token) as peer:
        thread = await server.make_thread()
        for _ in range(3):
            await peer.subscribe(thread, "head")
        frame = await peer.next()
        while frame["type"] != "server.error":
            frame = await peer.next()

        assert frame["code"] == "rate_limited"
        assert 0 < frame["retryAfterMs"] <= 1_000


async def test_a_reader_that_takes_nothing_is_dropped_and_others_do_not_notice() -> None:
    """Chapter 8.8."""
    async with (
        fake_server(ServerConfig(write_s=0.3)) as server,
        ready(server.url, server.user.token) as quick,
        ready(server.url, server.bot.token) as stalled,
    ):
        thread = await server.make_thread(server.bot)
        big = [{"type": "x.a.b", "payload": {"x": "y" * 200_000}}] * 5
        for _ in range(20):
            await server.append(thread, big)
        end = await head(server, thread)
        await stalled.subscribe(thread, 0)  # and reads one message ahead, then no more
        await quick.subscribe(thread, 0)
        await quick.expect("server.subscribed")
        assert await quick.seqs(thread, end) == list(range(1, end + 1))
        with trio.fail_after(5):
            await server.sockets_left(1)


# --- losing access -----------------------------------------------------------------------------


async def test_nothing_after_a_revoke_is_sent_and_others_go_on() -> None:
    """Chapters 3.7, 8.6; field case 8.7."""
    async with (
        fake_server() as server,
        ready(server.url, server.bot.token) as bot,
        ready(server.url, server.user.token) as user,
    ):
        lost, kept = [await server.make_thread(server.bot) for _ in range(2)]
        for thread in (lost, kept):
            await bot.subscribe(thread, 0)
        await user.subscribe(lost, "head")
        await server.revoke(lost, server.bot)
        revoked_at = await head(server, lost)
        await server.say(lost, "secret")
        await server.say(kept, "hello")

        seen: list[dict[str, Any]] = []
        while not seen or seen[-1].get("events", [{}])[-1].get("seq") != await head(server, kept):
            seen.append(await bot.next())
        of_lost = [frame for frame in seen if frame.get("threadId") == lost]
        assert {e["seq"] for f in of_lost for e in f.get("events", [])} <= set(
            range(1, revoked_at + 1)
        )
        assert [f["reason"] for f in of_lost if f["type"] == "server.unsubscribed"] == ["revoked"]
        assert of_lost[-1]["type"] == "server.unsubscribed"
        await user.expect("server.subscribed")
        assert (await user.next())["type"] in ("server.events", "server.caught_up")


async def test_revoked_while_behind_gets_nothing_more() -> None:
    """A reader that is served from the store at the very moment."""
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        thread = await server.make_thread(server.bot)
        for _ in range(6):
            await server.append(thread, [{"type": "x.a.b", "payload": {"x": "y" * 100}}] * 250)
        await peer.subscribe(thread, 0)
        await peer.expect("server.subscribed")
        await server.revoke(thread, server.bot)
        last = await head(server, thread)
        await server.say(thread, "secret")

        frame = await peer.next()
        while frame["type"] == "server.events":
            assert frame["events"][-1]["seq"] <= last
            frame = await peer.next()
        assert frame["type"] == "server.unsubscribed"
        await peer.nothing()


async def test_inherited_access_ends_with_that_of_the_parent() -> None:
    """Chapter 3.3."""
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        parent = await server.make_thread(server.bot)
        new = wire.NewSubthread(key="c")
        _, child = await server.store.create_subthread(server.user.caller, parent, new)
        await peer.subscribe(child.thread_id, "head")
        await peer.expect("server.subscribed")
        await peer.expect("server.caught_up")
        await server.revoke(parent, server.bot)

        await peer.expect("server.unsubscribed", threadId=child.thread_id, reason="revoked")


async def test_a_change_of_role_keeps_the_subscription() -> None:
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        thread = await server.make_thread(server.bot)
        await peer.subscribe(thread, "head")
        await peer.expect("server.subscribed")
        await peer.expect("server.caught_up")
        await server.grant(thread, server.bot, "commenter")
        await server.say(thread, "on")

        last = await head(server, thread)
        assert await peer.seqs(thread, last) == list(range(last - 3, last + 1))


async def test_a_revoked_token_takes_its_sockets_along_within_a_second() -> None:
    """Chapter 2.5: that token's, not the principal's."""
    async with fake_server() as server:
        minted = await server.store.mint_token(SYSTEM, server.bot.id, wire.NewToken())
        assert minted.token is not None
        async with (
            ready(server.url, server.bot.token) as old,
            ready(server.url, minted.token) as new,
        ):
            assert server.bot.caller.token_id is not None
            await server.store.revoke_tokens(SYSTEM, server.bot.id, server.bot.caller.token_id)
            with trio.fail_after(1):
                assert await old.closed() == 4401
            await new.send("client.ping", ref="p")
            await new.expect("server.pong", ref="p")


async def test_a_token_that_expires_closes_its_socket() -> None:
    async with fake_server() as server:
        first = await server.store.mint_token(SYSTEM, server.bot.id, wire.NewToken())
        assert first.token is not None
        async with ready(server.url, first.token) as peer:
            replace = wire.NewToken(revoke_others=True, grace_seconds=1)
            await server.store.mint_token(SYSTEM, server.bot.id, replace)
            await peer.nothing(0.3)
            with trio.fail_after(2):
                assert await peer.closed() == 4401


async def test_a_disabled_principal_loses_its_sockets() -> None:
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        change = wire.PrincipalChange(disabled_at="2026-01-01T00:00:00.000Z")
        await server.store.change_principal(SYSTEM, server.bot.id, change)

        assert await peer.closed() == 4403
        async with connected(server.url) as again:
            await again.send("client.auth", token=server.bot.token)
            assert await again.closed() == 4403


# --- grants ------------------------------------------------------------------------------------


async def test_grants_come_as_a_snapshot_and_then_live() -> None:
    """Chapter 9.1."""
    async with fake_server() as server, ready(server.url, server.bot.token) as peer:
        first = await server.make_thread(server.bot)
        await peer.send(GRANTS, ref="g")
        snapshot = await peer.expect("server.grants_snapshot", more=False, ref="g")
        [grant] = snapshot["grants"]
        assert grant["target"] == {"type": "thread", "threadId": first}
        assert grant["lastSeq"] == await head(server, first)
        assert grant["joinedSeq"] == 3
        seq = snapshot["grantSeq"]
        second = await server.make_thread(server.bot)
        added = await peer.expect("server.grant", grantSeq=seq + 1, action="granted")
        assert added["grant"]["target"]["threadId"] == second
        await peer.subscribe(second, 0)  # readable as soon as it was told (9.3)
        await peer.expect("server.subscribed")
        await peer.seqs(second, 3)
        await peer.expect("server.caught_up")
        await server.grant(second, server.bot, "commenter")
        assert {(await peer.next())["type"] for _ in range(2)} == {"server.grant", "server.events"}
        await server.revoke(second, server.bot)
        frames = [await peer.next() for _ in range(2)]
        assert {f["type"] for f in frames} == {"server.grant", "server.unsubscribed"}
        assert [f["action"] for f in frames if f["type"] == "server.grant"] == ["revoked"]


async def test_grants_resume_after_a_position() -> None:
    async with fake_server() as server:
        threads = [await server.make_thread(server.bot) for _ in range(3)]
        await server.revoke(threads[0], server.bot)
        async with ready(server.url, server.bot.token) as peer:
            await peer.send(GRANTS, after=1, ref="g")
            changes = [await peer.expect("server.grant", grantSeq=n) for n in (2, 3, 4)]
            await peer.expect("server.caught_up", stream="grants", grantSeq=4)
            assert [c["action"] for c in changes] == ["granted", "granted", "revoked"]
            await peer.send(GRANTS, after=4)
            await peer.expect("server.caught_up", stream="grants", grantSeq=4)
            await peer.send(GRANTS, after=99)  # of another log: the whole truth
            snapshot = await peer.expect("server.grants_snapshot", grantSeq=4)
            assert {g["target"]["threadId"] for g in snapshot["grants"]} == set(threads[1:])


async def test_a_big_snapshot_comes_in_parts() -> None:
    config = ServerConfig(limits=wire.Limits(frame_bytes=2_048))
    async with fake_server(config) as server, ready(server.url, server.bot.token) as peer:
        threads = {await server.make_thread(server.bot) for _ in range(20)}
        await peer.send(GRANTS)
        seen: set[str] = set()
        frames = 0
        while True:
            frame = await peer.expect("server.grants_snapshot", grantSeq=20)
            seen |= {g["target"]["threadId"] for g in frame["grants"]}
            frames += 1
            if not frame["more"]:
                break

        assert seen == threads
        assert frames > 1


# --- bad frames --------------------------------------------------------------------------------


async def test_three_bad_frames_in_a_row_close() -> None:
    """Chapter 8.5; field case 9.6 is the nested one."""
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        bad = ["[" * 30_000, '{"type":"client.dance"}', '{"type":"client.subscribe"}']
        for text in (*bad[:2], '{"type":"client.ping"}', *bad):
            await peer.socket.send_message(text)
        for _ in range(2):
            await peer.expect("server.error", code="invalid_frame", fatal=False)
        await peer.expect("server.pong")
        for _ in range(3):  # frames before a close are not lost
            await peer.expect("server.error", code="invalid_frame")

        assert await peer.closed() == 4400


async def test_binary_and_a_second_auth_are_no_frames() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        await peer.send("client.auth", token=server.user.token)
        await peer.expect("server.error", code="invalid_frame")
        await peer.socket.send_message(b"{}")

        assert await peer.closed() == 4400


async def test_a_frame_beyond_the_limit_closes_with_too_big() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        await peer.send("client.ping", ref="x" * 70_000)

        assert await peer.closed() == 1009


FRAMES = st.dictionaries(
    st.sampled_from(["type", "threadId", "after", "ref", "logEpoch", "token"]),
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=True)
    | st.text(max_size=8)
    | st.sampled_from(
        ["client.subscribe", "client.unsubscribe", "client.ping", "client.subscribe_grants", "head"]
    )
    | st.lists(st.none(), max_size=2),
)


async def test_made_up_frames_never_break_a_socket() -> None:
    async with fake_server() as server, ready(server.url, server.user.token) as peer:
        strategy = FRAMES.map(json.dumps) | st.text(max_size=20)
        for text in _examples(strategy, 150):
            await peer.socket.send_message(text)
            await peer.send("client.ping", ref="still here")
            frame = await peer.next()
            while frame.get("ref") != "still here" or frame["type"] != "server.pong":
                assert frame["type"].startswith("server."), frame
                frame = await peer.next()


def _examples(strategy: st.SearchStrategy[str], count: int) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=count, database=None, phases=[Phase.generate], derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found
