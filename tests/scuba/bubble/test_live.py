"""The socket under every kind of bad weather: each event once, in order, and never for ever."""

import logging
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked
from trio_websocket import wrap_server_stream

from actors.events import Event
from actors.messages import CaughtUp, EventsSeen, GrantChange, ThreadGranted, ThreadInbox
from scuba.bubble import BubbleClient, BubbleLog
from scuba.bubble.address import Address
from scuba.errors import ConfigError, IdentityRefused, ScubaError
from tests.kit.scripted_peer import Json, Peer, Talk
from tests.scuba.bubble.conftest import TOKEN

A, B = "thr_a", "thr_b"


class Reader:
    """A thread that takes what it is sent."""

    def __init__(self, capacity: int = 100) -> None:
        self.inbox, self._receive = trio.open_memory_channel[ThreadInbox](capacity)
        self.events: list[Event] = []
        self.caught_up: list[int] = []

    async def read_to(self, seq: int) -> None:
        """Take messages until the event with that seq was among them."""
        while not self.events or self.events[-1].seq < seq:
            self.take(await self._receive.receive())

    def take(self, message: ThreadInbox) -> None:
        match message:
            case EventsSeen(events=events):
                self.events += events
            case CaughtUp(seq=seq):
                self.caught_up.append(seq)
            case _:
                raise AssertionError(message)

    def take_all(self) -> None:
        while True:
            try:
                self.take(self._receive.receive_nowait())
            except trio.WouldBlock:
                return

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self.events]


def upto(seq: int) -> list[int]:
    return list(range(1, seq + 1))


@asynccontextmanager
async def running(log: BubbleLog) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        yield nursery
        nursery.cancel_scope.cancel()


async def test_what_is_kept_comes_first_then_what_is_new(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 5)
    reader = Reader()
    async with running(log), log.subscribe(A, 2, reader.inbox):
        await reader.read_to(5)
        peer.add(A)
        await peer.talks[-1].events(A, peer.logs[A][5:])
        await reader.read_to(6)
        reader.take_all()

    assert reader.seqs == [3, 4, 5, 6]
    assert reader.caught_up == [5]
    assert peer.heard_of("client.subscribe")[0]["logEpoch"] == log.log_epoch == "e-1"


async def test_wherever_the_stream_is_cut_nothing_is_missed_or_doubled(
    autojump_clock: MockClock, nursery: trio.Nursery, client: BubbleClient
) -> None:
    """Field cases 2.2 and 2.7: cut after every message once; two equal texts both count."""
    cut_after = 0
    while True:
        cut_after += 1
        peer = Peer(nursery)
        peer.add(A, 7)
        peer.add(B, 3)
        peer.grants = [{"target": {"type": "thread", "threadId": A}, "joinedSeq": 1}]
        peer.cut_after = cut_after
        log = BubbleLog(client, instance_id="i", principal_id="bot-research", dial=peer.dial)
        a, b = Reader(), Reader()
        grants_send, grants = trio.open_memory_channel[GrantChange](9)
        async with running(log) as tasks, log.subscribe(A, 0, a.inbox):
            tasks.start_soon(log.grants, grants_send)
            async with log.subscribe(B, 1, b.inbox):
                with trio.fail_after(300):
                    await a.read_to(7)
                    await b.read_to(3)
                    granted = await grants.receive()
                await wait_all_tasks_blocked()
                a.take_all()
                b.take_all()

        assert a.seqs == upto(7)
        assert b.seqs == [2, 3]
        assert granted == ThreadGranted(thread_id=A, joined_seq=1)
        with pytest.raises(trio.WouldBlock):
            grants.receive_nowait()
        if peer.sent < cut_after:
            break
        assert log.statistics().reconnects in (0, 1)
    assert cut_after == 12


async def test_frames_before_a_close_are_all_handled(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """Field case 8.6: three frames directly followed by the close; then on from the last seq."""
    peer.add(A, 3)

    async def send_and_close(talk: Talk, frame: Json) -> None:
        del peer.on["client.subscribe"]
        await talk.subscribed(frame, step=1)
        await talk.close(1011)

    peer.on["client.subscribe"] = send_and_close
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(3)
        assert peer.dials == 1
        peer.add(A)
        await reader.read_to(4)

    assert reader.seqs == upto(4)
    assert [frame["after"] for frame in peer.heard_of("client.subscribe")] == [0, 3]


async def test_a_laggard_holds_nobody_up_and_misses_nothing(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 20)
    peer.add(B, 20)
    lazy, eager = Reader(capacity=1), Reader()
    async with running(log), log.subscribe(A, 0, lazy.inbox), log.subscribe(B, 0, eager.inbox):
        await eager.read_to(20)
        await wait_all_tasks_blocked()
        assert log.statistics().laggards >= 1
        assert peer.heard_of("client.unsubscribe")
        await lazy.read_to(20)
        lazy.take_all()

    assert lazy.seqs == eager.seqs == upto(20)


async def test_a_laggard_misses_nothing_through_a_reconnect_either(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 20)
    reader = Reader(capacity=1)
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await wait_all_tasks_blocked()
        await peer.talks[-1].close(1011)
        await trio.sleep(5)
        assert len(peer.heard_of("client.subscribe")) == 1
        await reader.read_to(20)

    assert reader.seqs == upto(20)


async def test_a_thread_that_is_left_gets_nothing_more(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 2)
    reader = Reader()
    async with running(log):
        async with log.subscribe(A, 0, reader.inbox):
            await reader.read_to(2)
            await wait_all_tasks_blocked()
            reader.take_all()
        peer.add(A)
        await peer.talks[-1].events(A, peer.logs[A][2:])
        await wait_all_tasks_blocked()
        reader.take_all()

        assert reader.seqs == upto(2)
        assert peer.heard_of("client.unsubscribe") == [
            {"type": "client.unsubscribe", "threadId": A}
        ]
        assert log.statistics().subscriptions == 0


async def test_an_inbox_that_nobody_reads_harms_nobody(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 4)
    peer.add(B, 4)
    dead, eager = Reader(), Reader()
    await dead._receive.aclose()
    async with running(log), log.subscribe(A, 0, dead.inbox), log.subscribe(B, 0, eager.inbox):
        await eager.read_to(4)
        assert log.statistics().subscriptions == 1


async def test_a_hole_is_asked_for_again_and_counted(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog, caplog: pytest.LogCaptureFixture
) -> None:
    """And a server that leaves it out each time is asked with growing waits (8.4)."""
    peer.add(A, 6)
    asked = 0

    async def leave_out(talk: Talk, frame: Json) -> None:
        nonlocal asked
        asked += 1
        if asked == 40:
            del peer.on["client.subscribe"]
            await talk.subscribed(frame)
            return
        after = frame["after"]
        await talk.send("server.subscribed", threadId=A, after=after, lastSeq=6, ref=frame["ref"])
        await talk.events(A, [e for e in peer.logs[A] if e["seq"] > after and e["seq"] != 4])

    peer.on["client.subscribe"] = leave_out
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(6)

    assert reader.seqs == upto(6)
    assert log.statistics().gaps == 39
    assert trio.current_time() > 200
    assert f"left out what follows seq 3 of thread {A}" in caplog.text


async def test_silence_is_noticed(autojump_clock: MockClock, peer: Peer, log: BubbleLog) -> None:
    """Field case 8.3: half-open; and pings alone are enough to stay."""
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        for _ in range(10):
            await trio.sleep(20)
            await peer.talks[0].web_socket.ping()
        assert peer.dials == 1
        began = trio.current_time()
        peer.add(A)
        await reader.read_to(1)

    assert 2.5 * peer.heartbeat_s <= trio.current_time() - began <= 2.5 * peer.heartbeat_s + 2


async def test_a_slow_reader_makes_no_false_alarm(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """Field case 8.3: reading and handling are separate."""
    peer.add(A, 10)
    reader = Reader(capacity=0)
    async with running(log), log.subscribe(A, 0, reader.inbox):
        for _ in range(30):
            await trio.sleep(20)
            await peer.talks[0].send("server.heartbeat", time="")

        assert peer.dials == 1
        await reader.read_to(10)


async def test_a_dead_server_is_tried_with_growing_waits_and_few_lines(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Field cases 8.4 and 12.3."""
    caplog.set_level(logging.INFO)
    peer.add(A, 1)
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(1)
        peer.refuses_dials = True
        await peer.talks[-1].close(1011)
        await trio.sleep(1800)
        dials = peer.dials
        lines = len(caplog.messages)
        peer.refuses_dials = False
        peer.add(A, 1)
        with trio.fail_after(31):
            await reader.read_to(2)

    assert 60 < dials < 300
    assert lines <= 32
    assert "works again" in caplog.messages[-1]


async def test_a_planned_stop_is_followed_by_its_own_hint(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    async with running(log):
        await peer.talks[0].send("server.closing", reason="restart", reconnectAfterMs=1500)
        await peer.talks[0].close(1001)
        began = trio.current_time()
        await trio.sleep(1.49)
        assert peer.dials == 1
        await trio.sleep(0.02)
        assert peer.dials == 2

    assert trio.current_time() - began < 1.6


async def test_too_many_sockets_waits_half_a_minute(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    async with running(log):
        await peer.talks[0].close(4429)
        await trio.sleep(29)
        assert peer.dials == 1
        await trio.sleep(2)
        assert peer.dials == 2


@pytest.mark.parametrize(
    ("code", "kind", "dials"),
    [(4401, IdentityRefused, 2), (4403, IdentityRefused, 1), (4426, ConfigError, 1)],
)
async def test_a_refusal_for_good_ends_it_soon(
    autojump_clock: MockClock,
    peer: Peer,
    log: BubbleLog,
    caplog: pytest.LogCaptureFixture,
    code: int,
    kind: type[ScubaError],
    dials: int,
) -> None:
    """Field cases 8.1 and 12.1: no hammering, a clear word, and nowhere the token."""
    caplog.set_level(logging.DEBUG)

    async def refuse(talk: Talk, frame: Json) -> None:
        await talk.send("server.error", code="unauthenticated", detail="no", fatal=True)
        await talk.close(code)

    peer.on["client.auth"] = refuse
    with pytest.raises(kind, match="unauthenticated: no") as caught:
        await log.run()

    assert peer.dials == dials
    assert peer.heard[0]["token"] == TOKEN
    assert TOKEN not in repr(caught.value) + caught.value.hint + caplog.text
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert TOKEN not in "".join(told.format())


async def test_a_token_that_is_revoked_later_ends_it_too(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """Field case 8.1."""

    async def refuse(talk: Talk, frame: Json) -> None:
        await talk.close(4401)

    with pytest.RaisesGroup(IdentityRefused):
        async with running(log):
            peer.on["client.auth"] = refuse
            await peer.talks[0].close(4401)
            await trio.sleep(60)

    assert peer.dials == 2


async def test_one_refusal_may_be_an_accident(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """A server says 4401 to whoever was slow, too (8.2)."""
    async with running(log):
        for _ in range(3):
            await peer.talks[-1].close(4401)
            for _ in range(4):
                await trio.sleep(20)
                await peer.talks[-1].web_socket.ping()

    assert peer.dials == 4


async def test_protocol_errors_end_it_only_when_repeated(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    async def refuse(talk: Talk, frame: Json) -> None:
        await talk.close(4400)

    peer.on["client.auth"] = refuse
    with pytest.raises(ScubaError, match="3 connections in a row"):
        await log.run()

    assert peer.dials == 3


async def test_a_token_of_somebody_else_is_refused_by_name(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    async def ready(talk: Talk, frame: Json) -> None:
        await talk.ready(principal={"principalId": "bot-other", "kind": "bot"})

    peer.on["client.auth"] = ready
    with pytest.raises(IdentityRefused, match="belongs to bot-other, not to bot-research"):
        await log.run()


async def test_another_log_ends_it_with_both_epochs(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ScubaError, match="is e-2, ours was e-1")):
        async with running(log):
            peer.log_epoch = "e-2"
            await peer.talks[0].close(1011)
            await trio.sleep(60)


async def test_another_daemon_of_the_same_bot_is_told(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog, caplog: pytest.LogCaptureFixture
) -> None:
    async def ready(talk: Talk, frame: Json) -> None:
        await talk.ready(otherInstances=1)

    peer.on["client.auth"] = ready
    async with running(log):
        assert "1 other connections run as bot-research" in caplog.text


async def test_a_server_that_never_gets_ready_is_left(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    async def nothing(talk: Talk, frame: Json) -> None:
        del peer.on["client.auth"]

    peer.on["client.auth"] = nothing
    async with running(log):
        assert peer.dials == 2
    assert 10 <= trio.current_time() <= 12


async def test_frames_and_fields_that_nobody_knows_are_ignored(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 1)
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await peer.talks[0].send("server.weather", mood="fine")
        await peer.talks[0].send("server.heartbeat", time="", more=1)
        await reader.read_to(1)
        assert peer.dials == 1


async def test_a_frame_that_cannot_be_read_costs_the_connection_not_the_events(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 2)
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(2)
        for rubbish in ('{"type":"server.events"', '{"type":"server.events","threadId":1}', "[]"):
            await peer.talks[-1].web_socket.send_message(rubbish)
            peer.add(A, 1)
            await reader.read_to(len(peer.logs[A]))

    assert reader.seqs == upto(5)
    assert peer.dials == 4


async def test_a_refused_subscription_is_asked_for_again(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 2)
    asked_at: list[float] = []

    async def rate_limited(talk: Talk, frame: Json) -> None:
        asked_at.append(trio.current_time())
        if len(asked_at) == 3:
            del peer.on["client.subscribe"]
        await talk.send(
            "server.error",
            code="rate_limited",
            detail="slowly",
            threadId=A,
            ref=frame["ref"],
            retryAfterMs=4000,
            fatal=False,
        )

    peer.on["client.subscribe"] = rate_limited
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(2)

    assert asked_at[1] - asked_at[0] >= 4
    assert asked_at[2] - asked_at[1] >= 4


async def test_a_forgotten_subscription_is_made_anew(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """Field case 8.12."""
    peer.add(A, 2)
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(2)
        await peer.talks[0].send("server.unsubscribed", threadId=A, reason="expired")
        peer.add(A, 1)
        await reader.read_to(3)

    assert reader.seqs == upto(3)


async def test_a_grants_stream_that_fails_at_first_is_asked_for_again(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    """Field case 8.12: two failures, then the truth."""
    failures = 0

    async def fail(talk: Talk, frame: Json) -> None:
        nonlocal failures
        failures += 1
        if failures == 2:
            del peer.on["client.subscribe_grants"]
        await talk.send("server.error", code="internal", detail="500", ref=frame["ref"])

    peer.on["client.subscribe_grants"] = fail
    peer.grants = [{"target": {"type": "thread", "threadId": A}, "joinedSeq": 4, "lastSeq": 9}]
    send, changes = trio.open_memory_channel[GrantChange](9)
    async with running(log) as tasks:
        tasks.start_soon(log.grants, send)
        with trio.fail_after(60):
            change = await changes.receive()

    assert change == ThreadGranted(thread_id=A, joined_seq=4, last_seq=9)


async def test_grants_are_resumed_after_what_is_known(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.grant_seq = 118
    send, changes = trio.open_memory_channel[GrantChange](9)
    async with running(log) as tasks:
        tasks.start_soon(log.grants, send)
        await wait_all_tasks_blocked()
        grant = {"target": {"type": "thread", "threadId": A}, "joinedSeq": 7, "role": "member"}
        await peer.talks[0].send("server.grant", grantSeq=119, action="granted", grant=grant)
        assert await changes.receive() == ThreadGranted(thread_id=A, joined_seq=7)
        await peer.talks[0].close(1011)
        await trio.sleep(2)

    assert [frame.get("after") for frame in peer.heard_of("client.subscribe_grants")] == [None, 119]


async def test_the_grants_may_be_read_once_at_a_time(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    send, changes = trio.open_memory_channel[GrantChange](9)
    peer.grants = [{"target": {"type": "thread", "threadId": A}, "joinedSeq": 4}]
    async with running(log):
        for _ in range(2):
            async with trio.open_nursery() as tasks:
                tasks.start_soon(log.grants, send)
                await changes.receive()
                with pytest.raises(RuntimeError, match="already"):
                    await log.grants(send)
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def answering(
    log_of: BubbleClient, answer: Callable[[trio.abc.Stream], Awaitable[None]]
) -> AsyncIterator[tuple[BubbleLog, list[float]]]:
    """Give a log whose connections are answered like that; and the times at which it dialled."""
    dialled_at: list[float] = []
    async with trio.open_nursery() as nursery:

        async def dial(_address: Address, _context: ssl.SSLContext | None) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            dialled_at.append(trio.current_time())
            client, server = memory_stream_pair()
            nursery.start_soon(answer, server)
            return client

        log = BubbleLog(log_of, instance_id="i", principal_id="bot-research", dial=dial)
        nursery.start_soon(log.run)
        yield log, dialled_at
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
async def test_what_is_no_web_socket_is_left_at_once(
    autojump_clock: MockClock, client: BubbleClient, reply: bytes
) -> None:
    """Not after the ten seconds that a slow server has."""

    async def answer(stream: trio.abc.Stream) -> None:
        await stream.receive_some(9999)
        await stream.send_all(reply)
        await stream.aclose()

    async with answering(client, answer) as (_, dialled_at):
        await trio.sleep(9)
        assert len(dialled_at) >= 4


async def test_an_upgrade_that_is_put_off_is_tried_when_the_server_says(
    autojump_clock: MockClock, client: BubbleClient
) -> None:
    async def answer(stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            await request.reject(503, extra_headers=[(b"Retry-After", b"7")], body=b"stopping")
            nursery.cancel_scope.cancel()

    async with answering(client, answer) as (_, dialled_at):
        await trio.sleep(30)

    waits = [later - sooner for sooner, later in pairwise(dialled_at)]
    assert len(waits) in (3, 4)
    assert all(7 <= wait <= 11 for wait in waits)


async def test_an_upgrade_that_is_forbidden_ends_it(
    autojump_clock: MockClock, client: BubbleClient
) -> None:
    async def answer(stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            await request.reject(403)
            nursery.cancel_scope.cancel()

    with pytest.RaisesGroup(pytest.RaisesExc(IdentityRefused, match="answered with 403")):
        async with answering(client, answer):
            await trio.sleep(60)
