"""BubbleLog against our own server, over real sockets: the port's promises, end to end."""

import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest
import trio
import trustme

from actors.events import (
    Draft,
    Event,
    Part,
    RunFinishedPayload,
    RunStarted,
    RunStartedPayload,
    TextDelta,
    ToolInputAvailable,
    part,
)
from actors.messages import (
    CaughtUp,
    EventsSeen,
    GrantChange,
    ThreadGranted,
    ThreadInbox,
    ThreadRevoked,
)
from actors.people import Person
from actors.ports import Keyed, Refused, Unavailable
from scuba import wire
from scuba.bubble import BubbleClient, BubbleLog, follow
from scuba.bubble.patience import Patience
from scuba.bubble.socket import MESSAGE_BYTES
from scuba.errors import IdentityRefused
from scuba.server import ServerConfig, serve_bubble
from scuba.server.config import Rate
from scuba.server.store import SYSTEM, open_store
from tests.kit.fake_server import FakeServer, fake_server
from tests.kit.sockets import open_sockets, until

FAST = ServerConfig(appends=Rate(10**6, 10**6), requests=Rate(10**6, 10**6), heartbeat_s=0.2)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    with trio.fail_after(30):
        async with fake_server(FAST) as server:
            yield server


@asynccontextmanager
async def bot_log(
    server: FakeServer, max_message_bytes: int = MESSAGE_BYTES
) -> AsyncIterator[BubbleLog]:
    """Run a bot's log on the server until left."""
    async with (
        BubbleClient(server.url, server.bot.token) as client,
        trio.open_nursery() as nursery,
    ):
        log = BubbleLog(
            client,
            instance_id="i-1",
            principal_id=server.bot.id,
            max_message_bytes=max_message_bytes,
        )
        await nursery.start(log.run)
        yield log
        nursery.cancel_scope.cancel()


def started(run_id: str) -> Keyed:
    return Keyed(f"{run_id}/0", Draft("run_started", run_id, RunStartedPayload()))


def said(run_id: str, number: int, text: str = "ok") -> Keyed:
    return Keyed(f"{run_id}/{number}", part(run_id, TextDelta(id="t", delta=text)))


async def take(inbox: trio.MemoryReceiveChannel[ThreadInbox], upto: int) -> list[Event]:
    """Return what comes up to the event with that seq."""
    events: list[Event] = []
    while not events or events[-1].seq < upto:
        message = await inbox.receive()
        if isinstance(message, EventsSeen):
            events += message.events
        else:
            assert isinstance(message, CaughtUp)
    return events


async def test_a_lost_answer_doubles_nothing(server: FakeServer) -> None:
    """Field case 2.4: committed and cut; committed nothing and 502; then the same call again."""
    thread_id = await server.make_thread(server.bot)
    async with bot_log(server) as log:
        batch = [started("run_1"), said("run_1", 1)]
        retry = Patience().until_answered
        server.drop_after_commit()
        with pytest.raises(Unavailable):
            await log.append(thread_id, batch)
        first = await retry(partial(log.append, thread_id, batch))
        server.fail_next_append(502, "unavailable", retry_after=2)
        with pytest.raises(Unavailable) as caught:
            await log.append(thread_id, [said("run_1", 2)])
        second = await retry(partial(log.append, thread_id, [said("run_1", 2)]))

    assert caught.value.retry_after_s == 2.0
    own = [e.seq for e in await server.events(thread_id) if e.principal_id == server.bot.id]
    assert own == [*first, *second]


async def test_a_refused_append_names_the_event_to_blame(server: FakeServer) -> None:
    thread_id = await server.make_thread(server.bot)
    async with bot_log(server) as log:
        again = Keyed("k", started("run_1").draft)
        with pytest.raises(Refused) as twice:
            await log.append(thread_id, [started("run_1"), again])
        surrogate = part("run_1", TextDelta(id="t", delta="\ud800"))
        with pytest.raises(Refused) as text:
            await log.append(thread_id, [started("run_1"), Keyed("k", surrogate)])
        odd = ToolInputAvailable(tool_call_id="c", tool_name="n", input={"at": object()})
        with pytest.raises(Refused) as nonsense:
            await log.append(thread_id, [Keyed("k", part("run_1", odd))])

    assert (twice.value.code, twice.value.index, twice.value.status) == ("run_exists", 1, 409)
    assert (text.value.code, text.value.index) == ("invalid_text", 1)
    assert (nonsense.value.code, nonsense.value.index) == ("invalid_event", 0)


async def test_an_append_goes_only_to_the_log_that_is_known(server: FakeServer) -> None:
    thread_id = await server.make_thread(server.bot)
    async with BubbleClient(server.url, server.bot.token) as client:
        with pytest.raises(Refused, match="epoch_changed"):
            await client.append(thread_id, [wire.NewEvent(type="x.y.z")], log_epoch="e-old")


async def test_a_refusal_on_one_thread_is_local(server: FakeServer) -> None:
    """Field case 8.2."""
    a, b = await server.make_thread(server.bot), await server.make_thread(server.bot)
    await server.grant(a, server.bot, "commenter")
    async with bot_log(server) as log:
        with pytest.raises(Refused) as caught:
            await log.append(a, [started("run_1")])
        await log.append(b, [started("run_1")])

    assert (caught.value.status, caught.value.code) == (403, "forbidden")


async def test_a_thread_that_refuses_us_is_checked_against_the_grants(server: FakeServer) -> None:
    """Field case 8.2: only A, and what the grants say of it is asked for again."""
    a, b = await server.make_thread(server.bot), await server.make_thread(server.bot)
    async with bot_log(server) as log, trio.open_nursery() as nursery:
        send, changes = trio.open_memory_channel[GrantChange](9)
        nursery.start_soon(log.grants, send)
        with trio.fail_after(20):
            assert {(await changes.receive()).thread_id for _ in range(2)} == {a, b}
            asked = Counter[str]()
            put = log._live._first.put

            def counted(subject: str, frame: msgspec.Struct) -> None:
                asked[type(frame).__name__] += 1
                put(subject, frame)

            log._live._first.put = counted  # type: ignore[method-assign]  # watched
            server.fail_next_append(403, "forbidden")
            with pytest.raises(Refused):
                await log.append(a, [started("run_1")])
            await log.append(b, [started("run_2")])
            await server.revoke(a, server.bot)
            assert await changes.receive() == ThreadRevoked(a)
        nursery.cancel_scope.cancel()

    assert asked["ClientSubscribeGrants"] == 1
    assert log.statistics().reconnects == 0


async def test_who_takes_part_is_told_with_kind_and_name(server: FakeServer) -> None:
    """Also somebody who has left, as long as there is another thread in common; else nothing."""
    name = wire.PrincipalChange(display_name="Nightly CI")
    ci, gone, stranger = [await server.make_bot(f"bot-{n}") for n in ("ci", "gone", "stranger")]
    await server.store.change_principal(server.user.caller, ci.id, name)
    thread_id = await server.make_thread(server.bot, ci)
    await server.make_thread(server.bot, gone)
    async with bot_log(server) as log:
        asked = [server.user.id, gone.id, stranger.id, "user-nobody"]
        found = await log.people(thread_id, asked)

    assert set(found) == {
        Person(server.user.id, "user"),
        Person(server.bot.id, "bot"),
        Person(ci.id, "bot", "Nightly CI"),
        Person(gone.id, "bot"),
    }


async def artifact(server: FakeServer, thread_id: str, data: bytes) -> str:
    """Put a file on a thread; return the path of its content."""
    new = wire.NewArtifact(name="a.png", media_type="image/png")
    shelf, caller = server.store.artifacts, server.user.caller
    _, made = await shelf.create(caller, thread_id, new)
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        path = f"/v1/artifacts/{made.artifact_id}/versions"
        headers = {"authorization": f"Bearer {server.user.token}", "content-type": "image/png"}
        answer = await http.post(path, content=data, headers=headers)
        assert answer.status_code == 201, answer.text
    return f"{path}/1/content"


async def test_an_artifact_of_the_thread_is_read_whole_or_not_at_all(server: FakeServer) -> None:
    """Field case 1.8: it may be given as a path or with the server's own address."""
    thread_id = await server.make_thread(server.bot)
    data = random.Random(1).randbytes(1_500_000)
    path = await artifact(server, thread_id, data)
    async with bot_log(server) as log:
        assert await log.content(thread_id, path, len(data)) == data
        assert await log.content(thread_id, server.url + path, len(data)) == data
        with pytest.raises(Refused, match="too_big"):
            await log.content(thread_id, path, len(data) - 1)
        with pytest.raises(Refused, match="artifact_not_found"):
            await log.content(thread_id, path.replace("art_", "art_x"), len(data))


async def test_nobody_is_shown_what_only_the_bot_may_see(server: FakeServer) -> None:
    """Field cases 13.4 and 13.5: nor is an address elsewhere asked."""
    here, there = [await server.make_thread(server.bot) for _ in range(2)]
    path = await artifact(server, there, b"secret")
    async with bot_log(server) as log:
        assert await log.content(there, path, 100) == b"secret"
        with pytest.raises(Refused, match="artifact_not_found"):
            await log.content(here, path, 100)
        served = len(server.served)
        for url in (f"http://127.0.0.2:{server.port}{path}", "/v1/auth/whoami", f"{path}?x=1"):
            assert await log.content(here, url, 100) is None
        assert len(server.served) == served


async def test_a_content_that_points_elsewhere_is_not_followed(server: FakeServer) -> None:
    """Field case 13.4: and the token goes nowhere."""
    thread_id = await server.make_thread(server.bot)
    path = await artifact(server, thread_id, b"data")
    async with bot_log(server) as log:
        server.fail_next("GET", "/content", 302, "found")
        with pytest.raises(Refused, match="never followed"):
            await log.content(thread_id, path, 100)


async def test_nothing_is_lost_between_reading_and_following(server: FakeServer) -> None:
    """Field case 2.2: a writer never stops while threads are read and then followed, 40 times."""
    thread_id = await server.make_thread(server.bot)
    rounds = random.Random(1)
    async with bot_log(server) as log, trio.open_nursery() as nursery:

        async def write() -> None:
            while True:
                await server.say(thread_id, "ok")
                await trio.sleep(rounds.random() * 0.002)

        nursery.start_soon(write)
        for _ in range(40):
            send, inbox = trio.open_memory_channel[ThreadInbox](50)
            seen = list(await log.window(thread_id, 0, 1000))
            async with log.subscribe(thread_id, seen[-1].seq, send):
                seen += await take(inbox, seen[-1].seq + rounds.randint(1, 12))
            assert [event.seq for event in seen] == list(range(1, seen[-1].seq + 1))
        nursery.cancel_scope.cancel()


async def test_a_window_larger_than_a_page_is_whole(server: FakeServer) -> None:
    """Field case 2.3: pages end at 1 MiB, and after 1,000 events."""
    thread_id = await server.make_thread(server.bot)
    for _ in range(30):
        await server.say(thread_id, "x" * 100_000)
    for _ in range(420):
        await server.say(thread_id, "x")
    async with bot_log(server) as log:
        whole = await log.window(thread_id, 0, 10_000)
        newest = await log.window(thread_id, 0, 1100)
        none = await log.window(thread_id, whole[-1].seq, 10)

    assert [event.seq for event in whole] == list(range(1, 3 + 450 * 3 + 1))
    assert newest[-1] == whole[-1]
    assert len(newest) - 1100 in (0, 1, 2)
    assert none == ()


async def test_a_window_begins_where_its_runs_begin(server: FakeServer) -> None:
    """Field case 2.3: also when the run is longer than the server aligns."""
    other = await server.make_bot("bot-other")
    thread_id = await server.make_thread(server.bot, other)
    async with BubbleClient(server.url, other.token) as client:
        own = BubbleLog(client, instance_id="i-2", principal_id=other.id)
        await own.append(thread_id, [started("run_1")])
        for batch in range(11):
            await own.append(
                thread_id, [said("run_1", batch * 250 + index + 1) for index in range(250)]
            )
        await server.say(thread_id, "in between")
        finish = Draft("run_finished", "run_1", RunFinishedPayload(status="completed"))
        await own.append(thread_id, [Keyed("run_1/end", finish)])
    async with bot_log(server) as log:
        events = await log.window(thread_id, 0, 2)
        run = await log.run_events(thread_id, "run_1")

    assert isinstance(events[0].body, RunStarted)
    assert [e for e in events if e.run_id == "run_1"] == list(run)
    assert len(run) == 2 + 2750
    assert len([e for e in events if isinstance(e.body, Part)]) == 2750 + 3


async def test_reading_outlasts_a_server_that_is_away(server: FakeServer) -> None:
    thread_id = await server.make_thread(server.bot)
    async with bot_log(server) as log, trio.open_nursery() as nursery:
        server.go_down()

        async def come_back() -> None:
            await trio.sleep(0.3)
            await server.come_up()

        nursery.start_soon(come_back)
        assert len(await log.window(thread_id, 0, 10)) == 3


async def test_following_outlasts_a_server_that_is_away(server: FakeServer) -> None:
    """Field case 2.7."""
    thread_id = await server.make_thread(server.bot)
    send, inbox = trio.open_memory_channel[ThreadInbox](50)
    async with bot_log(server) as log, log.subscribe(thread_id, 0, send):
        events = await take(inbox, 3)
        server.go_down()
        last = 0
        for _ in range(3):
            last = await server.say(thread_id, "ok") + 2
        await server.come_up()
        events += await take(inbox, last)

    assert [event.seq for event in events] == list(range(1, last + 1))


async def test_a_socket_that_hangs_is_left(server: FakeServer) -> None:
    """Field case 8.3, over a real socket: nothing passes, nothing is closed."""
    thread_id = await server.make_thread(server.bot)
    send, inbox = trio.open_memory_channel[ThreadInbox](50)
    async with bot_log(server) as log, log.subscribe(thread_id, 0, send):
        await take(inbox, 3)
        server.stall_socket()
        last = await server.say(thread_id, "ok") + 2
        await until(lambda: not log.statistics().connected)
        server.resume_socket()
        events = await take(inbox, last)

    assert [event.seq for event in events] == [4, 5, 6]
    assert log.statistics().reconnects >= 1


async def test_an_event_too_big_for_the_socket_comes_by_http(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 8.5: one failure, the event by HTTP, then on; its seq and size in the log."""
    thread_id = await server.make_thread(server.bot)
    big = await server.say(thread_id, "x" * 200_000) + 1
    last = await server.say(thread_id, "ok") + 2
    send, inbox = trio.open_memory_channel[ThreadInbox](50)
    async with bot_log(server, max_message_bytes=50_000) as log:
        async with log.subscribe(thread_id, 0, send):
            events = await take(inbox, last)
            last = await server.say(thread_id, "live") + 2
            events += await take(inbox, last)
        reconnects = log.statistics().reconnects

    assert [event.seq for event in events] == list(range(1, last + 1))
    assert reconnects == 1
    assert f"seq {big} of thread {thread_id} has 200" in caplog.text


async def test_grants_come_live(server: FakeServer) -> None:
    """Field case 8.7, the client's part."""
    a = await server.make_thread(server.bot)
    send, changes = trio.open_memory_channel[GrantChange](0)
    async with bot_log(server) as log, trio.open_nursery() as nursery:
        nursery.start_soon(log.grants, send)
        assert await changes.receive() == ThreadGranted(thread_id=a, joined_seq=3, last_seq=3)
        b = await server.make_thread(server.bot)
        assert await changes.receive() == ThreadGranted(thread_id=b, joined_seq=3)
        await server.revoke(a, server.bot)
        assert await changes.receive() == ThreadRevoked(a)
        with pytest.raises(Refused) as caught:
            await log.append(a, [started("run_1")])
        nursery.cancel_scope.cancel()

    assert (caught.value.status, caught.value.code) == (404, "thread_not_found")


async def test_a_revoked_token_ends_it_after_a_handful_of_requests(server: FakeServer) -> None:
    """Field case 8.1."""
    with pytest.RaisesGroup(IdentityRefused, flatten_subgroups=True):
        async with bot_log(server) as log:
            await server.store.revoke_tokens(SYSTEM, server.bot.id, None)
            requests = len(server.served)
            with pytest.raises(Refused, match="unauthenticated"):
                await log.append("thr_a", [started("run_1")])
            await trio.sleep_forever()

    assert len(server.served) - requests < 5


async def test_cancelled_appends_leave_no_connection_behind(server: FakeServer) -> None:
    """Field case 8.9: 500 appends cancelled at random moments, some while connecting."""
    thread_id = await server.make_thread(server.bot)
    moments = random.Random(9)
    before = open_sockets()
    async with BubbleClient(server.url, server.bot.token) as client:
        event = wire.NewEvent(type="x.scuba.test", run_id=None)

        async def append_for(seconds: float) -> None:
            with trio.move_on_after(seconds), suppress(Unavailable):
                await client.append(thread_id, [event])

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(append_for, moments.random() * 0.04)
        with trio.fail_after(1):
            await client.append(thread_id, [event])
        async with trio.open_nursery() as nursery:  # and every place of the pool is free
            for _ in range(200):
                nursery.start_soon(append_for, 20)
    await until(lambda: open_sockets() <= before)

    assert open_sockets() <= before


async def test_following_a_thread_as_a_person(server: FakeServer) -> None:
    thread_id = await server.make_thread()
    async with BubbleClient(server.url, server.user.token) as client:
        await server.say(thread_id, "before")
        async with follow(client, thread_id, 2) as envelopes:
            seqs = []
            async for envelope in envelopes:
                seqs.append(envelope.seq)
                if envelope.seq == 5:
                    await server.close_sockets(1011)
                    await server.say(thread_id, "after")
                if envelope.seq == 8:
                    break

    assert seqs == [3, 4, 5, 6, 7, 8]


async def test_all_calls_that_a_person_needs(server: FakeServer) -> None:
    async with BubbleClient(server.url, server.user.token) as client:
        assert (await client.info()).protocol["major"] == 1
        assert (await client.whoami()).principal.principal_id == "user-ada"
        new = wire.NewPrincipal(principal_id="bot-new", kind="bot", display_name="New")
        created = await client.create_principal(new)
        assert created.token is not None
        minted = await client.mint_token("bot-new", wire.NewToken(label="spare"))
        assert minted.token not in (None, created.token.token)
        thread = await client.create_thread(wire.NewThread(title="Talk", key="k"))
        assert await client.create_thread(wire.NewThread(key="k")) == thread
        target = wire.Target(type="thread", thread_id=thread.thread_id)
        await client.put_grant(wire.NewGrant(target=target, principal_id="bot-new", role="member"))
        view = await client.thread(thread.thread_id)
        assert {p.principal_id for p in view.participants} == {"user-ada", "bot-new"}
        await client.delete_grant(target, "bot-new")
        view = await client.thread(thread.thread_id)
        assert {p.principal_id for p in view.participants} == {"user-ada"}
        for _ in range(203):
            await server.make_thread()
        assert len(await client.threads()) == 204
        with pytest.raises(Refused, match="thread_not_found"):
            await client.thread("thr_unknown")


async def test_http_and_socket_each_speak_tls(tmp_path: Path) -> None:
    """One certificate, two contexts: what one protocol agrees on confuses the other."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    certificate.private_key_pem.write_to_path(str(key))
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(str(chain), append=True)
    config = ServerConfig(tls_cert=chain, tls_key=key, prefix="/team/x")
    contexts = []

    def verify() -> ssl.SSLContext:
        contexts.append(ssl.create_default_context())
        authority.configure_trust(contexts[-1])
        return contexts[-1]

    with trio.fail_after(20):
        async with open_store(None) as store, trio.open_nursery() as nursery:
            server = FakeServer(store, config, nursery)
            bot = await server.make_bot("bot-research", await server.make_user("user-ada"))
            stop = trio.Event()
            url = await nursery.start(partial(serve_bubble, store, config, stop=stop))
            async with BubbleClient(url, bot.token, verify=verify) as client:
                log = BubbleLog(client, instance_id="i", principal_id=bot.id)
                await nursery.start(log.run)
                assert (await client.info()).log_epoch == log.log_epoch
                nursery.cancel_scope.cancel()

    assert url.startswith("https://")
    assert len(contexts) == 2
