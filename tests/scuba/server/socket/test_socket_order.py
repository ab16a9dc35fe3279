"""Appends, revokes, grants, subscribes in any order: gapless, once each, none after a revoke."""

import math
from collections.abc import Callable
from typing import Any, cast

import msgspec
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from scuba import wire
from scuba.listener import Message
from scuba.server import ServerConfig, make_app
from scuba.server.store import AccessChanged, Caller, Change, Committed, Store
from tests.kit.peer import BarePeer

ADA = wire.Principal(principal_id="user-ada", kind="user")
THREADS = ("thr_a", "thr_b")
TOKEN = f"bubble_user_{'t' * 43}"


class Log:
    """One thread as a model: its events, and who may read them."""

    def __init__(self) -> None:
        self.events: list[wire.Envelope] = []
        self.readable = True
        self.revoked_at = 0


class ModelStore:
    """Two logs in plain lists. Each look at them takes some turns of the scheduler."""

    log_epoch = "e-1"
    cursor_key = bytes(32)
    consumers = None

    def __init__(self, turns: list[int]) -> None:
        self.identities = self
        self.logs = {thread: Log() for thread in THREADS}
        self._listeners: list[Callable[[Change], None]] = []
        self._turns = turns

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: None

    async def identify(self, token: str) -> Caller:
        await self._wait()
        return Caller(ADA, "tok_1")

    async def check(self) -> None:
        await trio.lowlevel.checkpoint()

    async def left_s(self, caller: Caller) -> float:
        await self._wait()
        return math.inf

    async def role_on(self, caller: Caller, thread_id: str) -> tuple[str | None, int]:
        await self._wait()
        log = self.logs[thread_id]
        found = ("member", len(log.events)) if log.readable else (None, 0)
        await self._wait()  # the answer may be old when it arrives
        return found

    async def read(
        self, principal_id: str, thread_id: str, after: int, *, limit: int, max_bytes: int
    ) -> list[wire.Envelope]:
        await self._wait()
        found = self.logs[thread_id].events[after : after + limit]
        await self._wait()
        return found

    def append(self, thread_id: str, count: int) -> None:
        events = self.logs[thread_id].events
        new = [
            wire.Envelope(
                id="",
                thread_id=thread_id,
                seq=len(events) + n,
                ts="",
                principal_id="b",
                type="x.y.z",
            )
            for n in range(1, count + 1)
        ]
        events += new
        self._tell(Committed(thread_id, tuple(new)))

    def set_readable(self, thread_id: str, *, readable: bool) -> None:
        log = self.logs[thread_id]
        if log.readable and not readable:
            log.revoked_at = len(log.events)
        log.readable = readable
        self._tell(AccessChanged("user-ada", thread_id))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    async def _wait(self) -> None:
        for _ in range(1 + (self._turns.pop() if self._turns else 0)):
            await trio.lowlevel.checkpoint()


class Watcher(BarePeer):
    """A client that checks each frame at the moment it is sent."""

    def __init__(self, store: ModelStore) -> None:
        super().__init__()
        self._store = store
        self._next: dict[str, int] = {}
        self._goal: dict[str, int] = {}
        self.kinds: list[str] = []

    async def _take(self, message: Message) -> None:
        if message["type"] == "websocket.send":
            self._check(msgspec.json.decode(message["text"]))
        await trio.lowlevel.checkpoint()

    def _check(self, frame: dict[str, Any]) -> None:
        self.kinds.append(frame["type"])
        thread = str(frame.get("threadId"))
        match frame["type"]:
            case "server.subscribed":
                self._next[thread] = frame["after"] + 1
                self._goal[thread] = frame["lastSeq"]
            case "server.events":
                log = self._store.logs[thread]
                for event in frame["events"]:
                    assert event["seq"] == self._next[thread], frame
                    assert log.readable or event["seq"] <= log.revoked_at, frame
                    self._next[thread] += 1
            case "server.caught_up":
                assert frame["seq"] == self._goal.pop(thread)
                assert self._next[thread] == frame["seq"] + 1  # right after it
            case "server.unsubscribed" | "server.error":
                self._next.pop(thread, None)
                self._goal.pop(thread, None)
            case _:
                pass

    def check_settled(self) -> None:
        """Nothing is on its way any more."""
        for thread, expected in self._next.items():
            log = self._store.logs[thread]
            assert log.readable
            assert expected == len(log.events) + 1
            assert thread not in self._goal


THREAD = st.sampled_from(THREADS)
PAUSE = st.integers(0, 12)
"""Turns of the scheduler between two steps; 0 is until all is quiet."""
STEPS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("append"), THREAD, st.integers(1, 90)),
            st.tuples(st.just("revoke"), THREAD, st.just(0)),
            st.tuples(st.just("grant"), THREAD, st.just(0)),
            st.tuples(st.just("subscribe"), THREAD, st.integers(0, 500)),
            st.tuples(st.just("unsubscribe"), THREAD, st.just(0)),
        ),
        PAUSE,
    ),
    max_size=20,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.lists(st.integers(0, 4), max_size=60))
async def test_whatever_happens_in_whatever_order(
    steps: list[tuple[tuple[str, str, int], int]], turns: list[int]
) -> None:
    """Chapters 3.7, 8.3, 8.6 and 17."""
    store = ModelStore(turns)
    watcher = Watcher(store)
    app = make_app(cast("Store", store), ServerConfig())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watcher.run, app)
        watcher.send("client.auth", token=TOKEN)
        await _pause(0)
        for thread in THREADS:
            store.append(thread, 300)
            watcher.send("client.subscribe", threadId=thread, after=0)
        for (kind, thread, number), pause in steps:
            if kind == "append":
                store.append(thread, number)
            elif kind == "revoke":
                store.set_readable(thread, readable=False)
            elif kind == "grant":
                store.set_readable(thread, readable=True)
            else:
                after = {"after": number} if kind == "subscribe" else {}
                watcher.send(f"client.{kind}", threadId=thread, **after)
            await _pause(pause)
        await _pause(0)
        watcher.check_settled()
        nursery.cancel_scope.cancel()


async def _pause(turns: int) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    if not turns:
        await trio.testing.wait_all_tasks_blocked()


class GatedStore(ModelStore):
    """A store whose look into the log waits for a sign."""

    def __init__(self) -> None:
        super().__init__([])
        self.looking, self.go_on = trio.Event(), trio.Event()

    async def read(
        self, principal_id: str, thread_id: str, after: int, *, limit: int, max_bytes: int
    ) -> list[wire.Envelope]:
        self.looking.set()
        await self.go_on.wait()
        return await super().read(principal_id, thread_id, after, limit=limit, max_bytes=max_bytes)


async def test_what_was_read_while_access_ended_is_not_sent(nursery: trio.Nursery) -> None:
    """Chapter 3.7."""
    store = GatedStore()
    store.append("thr_a", 300)
    watcher = Watcher(store)
    nursery.start_soon(watcher.run, make_app(cast("Store", store), ServerConfig()))
    watcher.send("client.auth", token=TOKEN)
    watcher.send("client.subscribe", threadId="thr_a", after=0)
    await store.looking.wait()
    store.set_readable("thr_a", readable=False)
    store.append("thr_a", 100)
    store.go_on.set()
    await _pause(0)

    assert watcher.kinds == ["server.ready", "server.subscribed", "server.unsubscribed"]


class LateStore(ModelStore):
    """A store whose answer about a role waits for a sign, and is old by then."""

    def __init__(self) -> None:
        super().__init__([])
        self.looked, self.go_on = trio.Event(), trio.Event()

    async def role_on(self, caller: Caller, thread_id: str) -> tuple[str | None, int]:
        found = await super().role_on(caller, thread_id)
        self.looked.set()
        await self.go_on.wait()
        return found


async def test_what_is_said_while_a_reader_at_the_head_subscribes_comes(
    nursery: trio.Nursery,
) -> None:
    """Field case 2.2: the head it is told is old, and nothing more happens on that thread."""
    store = LateStore()
    store.append("thr_a", 3)
    watcher = Watcher(store)
    nursery.start_soon(watcher.run, make_app(cast("Store", store), ServerConfig()))
    watcher.send("client.auth", token=TOKEN)
    watcher.send("client.subscribe", threadId="thr_a", after=3)
    await store.looked.wait()
    store.append("thr_a", 3)
    store.go_on.set()
    await _pause(0)

    watcher.check_settled()
