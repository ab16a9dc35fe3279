"""The socket against the clock: nobody waits longer than the protocol says."""

import json
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from scuba import wire
from scuba.errors import Problem
from scuba.server import ServerConfig, make_app
from scuba.server.store import Caller, Change, Committed, Store, TokenEnded
from tests.kit.peer import BarePeer

THREAD = "thr_quiet"
TOKEN = f"bubble_user_{'t' * 43}"


class QuietStore:
    """A store with one token and one thread that uses no thread of the machine."""

    log_epoch = "e-1"
    cursor_key = bytes(32)
    consumers = None

    def __init__(self) -> None:
        self.listeners: list[Callable[[Change], None]] = []
        self.tokens = {TOKEN}
        self.identities = self
        self.log: list[wire.Envelope] = []
        self.reads = 0

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: None

    def tell(self, change: Change) -> None:
        for listener in self.listeners:
            listener(change)

    async def identify(self, token: str) -> Caller | None:
        await trio.lowlevel.checkpoint()
        principal = wire.Principal(principal_id="user-ada", kind="user")
        return Caller(principal, "tok_1") if token in self.tokens else None

    async def check(self) -> None:
        await trio.lowlevel.checkpoint()

    async def left_s(self, caller: Caller) -> float:
        await trio.lowlevel.checkpoint()
        if not self.tokens:
            raise Problem(401, "unauthenticated", "the token has ended")
        return math.inf

    async def role_on(self, caller: Caller, thread_id: str) -> tuple[str, int]:
        await trio.lowlevel.checkpoint()
        return "owner", len(self.log)

    async def read(
        self, principal_id: str, thread_id: str, after: int, *, limit: int, max_bytes: int
    ) -> list[wire.Envelope]:
        await trio.lowlevel.checkpoint()
        self.reads += 1
        return self.log[after : after + limit]

    def append(self, count: int, thread_id: str = THREAD) -> None:
        start = len(self.log) + 1
        new = [
            wire.Envelope(
                id=f"evt_{seq}",
                thread_id=thread_id,
                seq=seq,
                ts="",
                principal_id="bot",
                type="x.a.b",
            )
            for seq in range(start, start + count)
        ]
        self.log += new
        self.tell(Committed(thread_id, tuple(new)))


class Line:
    """One bare socket on a quiet store."""

    def __init__(self, nursery: trio.Nursery, *, pings: bool = True) -> None:
        self.store = QuietStore()
        self.app = make_app(cast("Store", self.store), ServerConfig())
        self.peer = BarePeer(pings=pings)
        nursery.start_soon(self.peer.run, self.app)

    async def greet(self) -> None:
        assert (await self.peer.next())["type"] == "websocket.accept"
        self.peer.send("client.auth", token=TOKEN)
        assert (await self.peer.next())["type"] == "server.ready"

    async def follow(self, after: int = 0) -> None:
        self.peer.send("client.subscribe", threadId=THREAD, after=after)
        assert (await self.peer.next())["type"] == "server.subscribed"

    async def end(self) -> int:
        while True:
            frame = await self.peer.next()
            if frame["type"] == "websocket.close":
                return int(frame["code"])


async def test_who_says_nothing_is_closed_after_ten_seconds(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 8.2."""
    line = Line(nursery)

    assert (await line.peer.next())["subprotocol"] == "bubble.v1"
    assert await line.end() == 4401
    assert trio.current_time() == 10.0


async def test_a_quiet_socket_hears_a_heartbeat_and_lives_while_it_answers_pings(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 8.7."""
    line = Line(nursery)
    await line.greet()
    start = trio.current_time()
    beats = [await line.peer.next() for _ in range(10)]

    assert {beat["type"] for beat in beats} == {"server.heartbeat"}
    assert trio.current_time() - start == 200.0
    line.peer.answers_pings = False
    assert await line.end() == 4409
    assert trio.current_time() - start == 250.0  # 2.5 beats after the last pong


async def test_a_busy_socket_gets_no_heartbeat_frame(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    line = Line(nursery)
    await line.greet()
    await line.follow()
    kinds: list[str] = []
    for _ in range(12):
        await trio.sleep(5)
        line.store.append(1)
        kinds.append((await line.peer.next())["type"])

    assert set(kinds) == {"server.caught_up", "server.events"}


async def test_without_pings_a_silent_browser_is_kept(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    line = Line(nursery, pings=False)
    await line.greet()
    for _ in range(10):
        assert (await line.peer.next())["type"] == "server.heartbeat"


async def test_a_peer_that_takes_nothing_still_loses_its_token_within_a_second(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 2.5."""
    line = Line(nursery)
    await line.greet()
    await line.follow()
    await line.peer.next()
    line.peer.flowing = trio.Event()  # nothing gets through any more
    line.store.append(5)
    await wait_all_tasks_blocked()
    line.store.tokens.clear()
    line.store.tell(TokenEnded("tok_1"))
    start = trio.current_time()
    await trio.sleep(1)
    line.peer.flowing.set()

    assert await line.end() == 4401
    assert trio.current_time() - start <= 1.0 + 1e-6


async def test_a_stop_tells_every_client_and_does_not_wait_for_the_deaf(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapters 8.9, 14.5."""
    line = Line(nursery)
    deaf = BarePeer()
    nursery.start_soon(deaf.run, line.app)
    await line.greet()
    await deaf.next()
    deaf.send("client.auth", token=TOKEN)
    await deaf.next()
    deaf.flowing = trio.Event()
    await line.app.stop()

    closing = await line.peer.next()
    assert (closing["type"], closing["reason"]) == ("server.closing", "restart")
    assert 500 <= closing["reconnectAfterMs"] < 3_000
    assert (await line.peer.next())["code"] == 1001
    with trio.fail_after(2):  # half a second for the frames, one for the close
        with pytest.raises(trio.EndOfChannel):
            await deaf.next()


async def test_a_laggard_misses_nothing_and_holds_up_nobody(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 8.8: a cursor and a flag; others are served meanwhile."""
    line = Line(nursery)
    await line.greet()
    await line.follow()
    await line.peer.next()
    line.peer.flowing = trio.Event()
    quick = BarePeer()
    nursery.start_soon(quick.run, line.app)
    quick.send("client.auth", token=TOKEN)
    quick.send("client.subscribe", threadId=THREAD, after=0)
    for _ in range(50):
        line.store.append(100)
        await wait_all_tasks_blocked()
    assert await _seqs(quick, 5_000) == list(range(1, 5_001))
    line.peer.flowing.set()

    assert await _seqs(line.peer, 5_000) == list(range(1, 5_001))


async def test_a_peer_that_takes_no_answers_is_not_listened_to_for_ever(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 8.8: what it is owed is bounded by size, and not lost."""
    line = Line(nursery)
    await line.greet()
    line.peer.flowing = trio.Event()
    for number in range(100):
        line.peer.send("client.ping", ref=f"{number}:{'x' * 50_000}")
    await wait_all_tasks_blocked()

    assert line.peer.unread >= 90
    line.peer.flowing.set()
    refs = [(await line.peer.next())["ref"] for _ in range(100)]
    assert [int(ref.partition(":")[0]) for ref in refs] == list(range(100))


async def test_live_events_need_no_look_into_the_store(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    line = Line(nursery)
    await line.greet()
    await line.follow()
    for _ in range(20):
        line.store.append(10)
        await wait_all_tasks_blocked()
    assert await _seqs(line.peer, 200) == list(range(1, 201))

    assert line.store.reads == 0


async def test_a_long_backlog_does_not_hold_up_a_live_thread(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Chapter 8.8: the writer goes round fairly."""
    line = Line(nursery)
    await line.greet()
    line.store.append(2_000)
    line.peer.send("client.subscribe", threadId="thr_a", after=0)
    line.peer.send("client.subscribe", threadId="thr_b", after=0)
    order: list[str] = []
    while len(order) < 20:
        frame = await line.peer.next()
        if frame["type"] == "server.events":
            order.append(frame["threadId"])

    assert order == ["thr_a", "thr_b"] * 10


async def _seqs(peer: BarePeer, last: int) -> list[int]:
    seen: list[int] = []
    while not seen or seen[-1] < last:
        message = await peer.frames.receive()
        frame: dict[str, Any] = json.loads(message.get("text") or "{}")
        seen += [event["seq"] for event in frame.get("events", [])]
    return seen
