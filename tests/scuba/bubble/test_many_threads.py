"""More threads than a socket may carry: further sockets, and still one knock at a closed door."""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.messages import EventsSeen, ThreadInbox
from scuba import wire
from scuba.bubble import BubbleClient, BubbleLog
from scuba.bubble.lines import MOST_LINES, Lines
from scuba.server import ServerConfig
from tests.kit.fake_server import fake_server
from tests.kit.scripted_peer import Json, Peer, Talk
from tests.kit.sockets import until
from tests.scuba.bubble.test_live import running

MOST = 2


class Crowd:
    """Threads that are followed, each with what it was sent."""

    def __init__(self, log: BubbleLog) -> None:
        self._log = log
        self.seqs: defaultdict[str, list[int]] = defaultdict(list)

    @asynccontextmanager
    async def follow(self, thread_id: str) -> AsyncIterator[None]:
        send, receive = trio.open_memory_channel[ThreadInbox](50)
        async with trio.open_nursery() as nursery, self._log.subscribe(thread_id, 0, send):
            nursery.start_soon(self._read, thread_id, receive)
            yield
            nursery.cancel_scope.cancel()

    async def _read(self, thread_id: str, receive: trio.MemoryReceiveChannel[ThreadInbox]) -> None:
        async for message in receive:
            if isinstance(message, EventsSeen):
                self.seqs[thread_id] += [event.seq for event in message.events]


class Counting:
    """Has a peer refuse what is more than a socket may carry."""

    def __init__(self, peer: Peer, *, tells: bool) -> None:
        self.carried: defaultdict[Talk, set[str]] = defaultdict(set)
        self.refusals = 0
        self._tells = tells
        peer.on["client.auth"] = self._ready
        peer.on["client.subscribe"] = self._subscribe
        peer.on["client.unsubscribe"] = self._unsubscribe

    async def _ready(self, talk: Talk, frame: Json) -> None:
        await talk.ready(limits={"subscriptions": MOST} if self._tells else {})

    async def _subscribe(self, talk: Talk, frame: Json) -> None:
        thread_id = frame["threadId"]
        if len(self.carried[talk] | {thread_id}) > MOST:
            self.refusals += 1
            code, ref = "too_many_subscriptions", frame["ref"]
            await talk.send("server.error", code=code, detail="", threadId=thread_id, ref=ref)
            return
        self.carried[talk].add(thread_id)
        await talk.subscribed(frame)

    async def _unsubscribe(self, talk: Talk, frame: Json) -> None:
        self.carried[talk].discard(frame["threadId"])
        await talk.send("server.unsubscribed", threadId=frame["threadId"], reason="client")


@pytest.mark.parametrize("tells", [True, False], ids=["told", "not told"])
async def test_what_one_socket_may_not_carry_is_carried_by_further_ones(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog, tells: bool
) -> None:
    """Also when the limit becomes known only by a refusal. None is kept that carries nothing."""
    counting = Counting(peer, tells=tells)
    crowd, threads = Crowd(log), [f"thr_{number}" for number in range(5)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(log))
        for thread_id in threads[:-1]:
            peer.add(thread_id, 3)
            await stack.enter_async_context(crowd.follow(thread_id))
        peer.add(threads[-1], 3)
        async with crowd.follow(threads[-1]):
            await trio.sleep(5)

            assert log.statistics().sockets == 3
            assert sorted(map(len, counting.carried.values())) == [1, 2, 2]
        await trio.sleep(5)

        assert log.statistics().sockets == 2
    assert dict(crowd.seqs) == {one: [1, 2, 3] for one in threads}
    assert counting.refusals == 0 or not tells


async def test_one_socket_knocks_for_all_at_a_server_that_is_down(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 8.4: further sockets wait for the first, and the log speaks of one outage."""
    caplog.set_level(logging.INFO)
    Counting(peer, tells=True)
    crowd, threads = Crowd(log), [f"thr_{number}" for number in range(20)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(log))
        for thread_id in threads:
            peer.add(thread_id)
            await stack.enter_async_context(crowd.follow(thread_id))
        await trio.sleep(5)
        assert peer.dials == 10

        peer.refuses_dials = True
        for talk in peer.talks:
            await talk.web_socket.aclose(1011)
        await trio.sleep(1800)

        assert peer.dials - 10 < 200  # 30 min at 15 s on average, and the quick ones before the cap
        peer.refuses_dials = False
        for thread_id in threads:
            peer.add(thread_id)
        await trio.sleep(31)
        await wait_all_tasks_blocked()

    assert dict(crowd.seqs) == {one: [1, 2] for one in threads}
    said = [record for record in caplog.records if record.name == "scuba.bubble.connection"]
    assert len(said) < 40
    assert sum("works again" in record.getMessage() for record in said) == 1


async def test_a_further_socket_that_is_lost_alone_comes_back_alone(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    Counting(peer, tells=True)
    crowd, threads = Crowd(log), [f"thr_{number}" for number in range(4)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(log))
        for thread_id in threads:
            peer.add(thread_id)
            await stack.enter_async_context(crowd.follow(thread_id))
        await trio.sleep(5)
        await peer.talks[1].close(1011)
        for thread_id in threads:
            peer.add(thread_id)
        await trio.sleep(5)

        assert log.statistics().connected
        assert log.statistics().reconnects == 1
    assert (peer.dials, [crowd.seqs[thread_id] for thread_id in threads[2:]]) == (3, [[1, 2]] * 2)


async def test_a_wrong_server_behind_a_further_socket_ends_it_as_behind_the_first(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    Counting(peer, tells=True)
    crowd = Crowd(log)
    with pytest.RaisesGroup(
        pytest.RaisesExc(Exception, match="log is another one"), flatten_subgroups=True
    ):
        async with running(log), AsyncExitStack() as stack:
            for number in range(MOST):
                await stack.enter_async_context(crowd.follow(f"thr_{number}"))
            peer.log_epoch = "e-2"
            await stack.enter_async_context(crowd.follow("thr_9"))
            await trio.sleep(5)


async def test_a_real_server_with_a_small_limit_serves_every_thread() -> None:
    config = ServerConfig(limits=wire.Limits(subscriptions=3))
    async with fake_server(config) as server, BubbleClient(server.url, server.bot.token) as client:
        threads = [await server.make_thread(server.bot) for _ in range(8)]
        log = BubbleLog(client, instance_id="i", principal_id=server.bot.id)
        crowd = Crowd(log)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(log))
            for thread_id in threads:
                await stack.enter_async_context(crowd.follow(thread_id))
            for thread_id in threads:
                await server.say(thread_id, "hello")
            heads = {one: [e.seq for e in await server.events(one)] for one in threads}
            with trio.fail_after(10):
                await until(lambda: crowd.seqs == heads)

            assert server.socket_count == log.statistics().sockets == 3
        await server.sockets_left(0)


def test_there_are_no_more_lines_than_sockets_and_places_that_come_free_are_taken() -> None:
    lines = Lines()
    lines.told(1)
    seats = {f"thr_{number}": lines.seat(f"thr_{number}", None) for number in range(MOST_LINES)}
    over = lines.seat("thr_over", None)
    assert (len(lines), over) == (MOST_LINES, lines.first)

    lines.leave("thr_5", seats["thr_5"])
    free = lines.seat("thr_over", over)
    assert free is not over
    assert free.threads == {"thr_over"}
    assert lines.first.threads == {"thr_0"}
