"""After a loss is answered no later event is sent, whatever was on its way (3.7, 8.6, 9.3).

Over real sockets, with events coming all the time and the loss at a moment of chance.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed

from actors.events import Role
from scuba import wire
from scuba.server.store import SYSTEM, Change, Committed
from tests.kit.fake_server import FakeServer, Who, fake_server
from tests.kit.peer import Frame, Peer, ready

DISABLED = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")
WORDS = 60


class Scene:
    """A thread above and one below that inherits; `eve` reads both, and is about to lose them."""

    def __init__(self, server: FakeServer, eve: Who, above: str, below: str) -> None:
        self.server, self.eve, self.above, self.below = server, eve, above, below
        self.log: list[wire.Envelope] = []
        """What was appended since, on both."""
        server.store.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if isinstance(change, Committed):
            self.log += change.events

    async def lose(self, how: str) -> None:
        store, eve = self.server.store, self.eve.id
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "revoked": lambda: self.server.revoke(self.above, self.eve),
            "shut out": lambda: store.change_thread(
                SYSTEM, self.below, wire.ThreadChange(access="direct")
            ),
            "disabled": lambda: store.change_principal(SYSTEM, eve, DISABLED),
            "no system owner": lambda: store.delete_grant(SYSTEM, wire.Target(type="system"), eve),
        }
        await ways[how]()

    async def head(self, thread_id: str) -> int:
        return (await self.server.events(thread_id))[-1].seq


@asynccontextmanager
async def scene(role: Role | None) -> AsyncIterator[Scene]:
    """Yield one where eve holds a role on the thread above, or with None owns the system."""
    async with fake_server() as server:
        eve = await server.make_user("eve")
        above = await server.make_thread()
        body = wire.NewSubthread()
        _, below = await server.store.create_subthread(server.user.caller, above, body)
        if role is not None:
            await server.grant(above, eve, role)
        else:
            target = wire.Target(type="system")
            root = wire.NewGrant(target=target, principal_id=eve.id, role="owner")
            await server.store.put_grant(SYSTEM, root)
        yield Scene(server, eve, above, below.thread_id)


async def talk(at: Scene, thread_id: str) -> None:
    for number in range(WORDS):
        await at.server.say(thread_id, f"word {number}")


async def collect(peer: Peer, frames: list[Frame], enough: Callable[[], bool]) -> None:
    """Collect frames until the socket closes, or there are enough and then silence."""
    with trio.fail_after(20):
        while True:
            got: Frame | None = None
            with trio.move_on_after(0.1):
                try:
                    got = await peer.next()
                except ConnectionClosed:
                    return
            if got is not None:
                frames.append(got)
            elif enough():
                return


def seqs(frames: list[Frame], thread_id: str) -> list[int]:
    return [
        event["seq"]
        for frame in frames
        if frame["type"] == "server.events" and frame["threadId"] == thread_id
        for event in frame["events"]
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("revoked", {"above", "below"}),
        ("shut out", {"below"}),
        ("disabled", {"above", "below"}),
        ("no system owner", {"above", "below"}),
    ],
)
async def test_nothing_of_a_lost_thread_comes_after_its_loss(
    how: str, lost: set[str], seed: int
) -> None:
    chance, frames = random.Random(seed), list[Frame]()
    async with (
        scene(None if how == "no system owner" else "member") as at,
        ready(at.server.url, at.eve.token) as peer,
    ):
        ids = {"above": at.above, "below": at.below}
        for thread_id in ids.values():
            await peer.subscribe(thread_id, 0)
        bounds: dict[str, int] = {}

        async def take_away() -> None:
            for _ in range(chance.randrange(20, 200)):
                await trio.lowlevel.checkpoint()
            await at.lose(how)
            bounds.update({event.thread_id: event.seq for event in at.log})

        all_told = trio.Event()
        kept = [thread_id for name, thread_id in ids.items() if name not in lost]

        def enough() -> bool:
            heads = {event.thread_id: event.seq for event in at.log}
            told = all(seqs(frames, id_)[-1:] == [heads[id_]] for id_ in kept)
            return all_told.is_set() and told

        async with trio.open_nursery() as outer:
            outer.start_soon(collect, peer, frames, enough)
            async with trio.open_nursery() as nursery:
                for thread_id in ids.values():
                    nursery.start_soon(talk, at, thread_id)
                nursery.start_soon(take_away)
            all_told.set()

        for name, thread_id in ids.items():
            got = seqs(frames, thread_id)
            assert got == list(range(1, len(got) + 1))
            if name in lost:
                assert len(got) <= bounds[thread_id]
            else:
                assert len(got) == await at.head(thread_id)
        ends = [f["threadId"] for f in frames if f["type"] == "server.unsubscribed"]
        if how != "disabled":  # which ends the socket
            assert sorted(ends) == sorted(ids[name] for name in lost)


@pytest.mark.parametrize("seed", range(3))
async def test_a_loss_in_the_middle_of_subscribing_is_not_missed(seed: int) -> None:
    chance, frames = random.Random(seed), list[Frame]()
    answered = trio.Event()
    async with scene("member") as at, ready(at.server.url, at.eve.token) as peer:
        sent_late: list[str] = []

        async def keep_subscribing() -> None:
            for number in range(100):
                if answered.is_set():
                    sent_late.append(f"r{number}")
                await peer.subscribe(at.below, 0, ref=f"r{number}")
                await trio.lowlevel.checkpoint()

        async def take_away() -> None:
            for _ in range(chance.randrange(5, 60)):
                await trio.lowlevel.checkpoint()
            await at.lose("revoked")
            answered.set()

        def enough() -> bool:
            return any(frame.get("ref") == "r99" for frame in frames)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, at, at.below)
            nursery.start_soon(keep_subscribing)
            nursery.start_soon(take_away)
            nursery.start_soon(collect, peer, frames, enough)

        answers: dict[str, Any] = {f["ref"]: f for f in frames if "ref" in f}
        assert len(answers) == 100
        assert all(answers[ref].get("code") == "thread_not_found" for ref in sent_late)
        last = max(seqs(frames, at.below), default=0)
        assert last < await at.head(at.below)
        await peer.subscribe(at.below, 0, ref="end")
        await peer.expect("server.error", code="thread_not_found", ref="end")


async def test_after_revoked_in_the_grants_stream_the_thread_is_silent() -> None:
    """Chapter 9.3."""
    frames: list[Frame] = []
    async with scene("member") as at, ready(at.server.url, at.eve.token) as peer:
        await peer.send("client.subscribe_grants")
        await peer.expect("server.grants_snapshot")
        await peer.subscribe(at.above, 0)

        async def take_away() -> None:
            while not seqs(frames, at.above):
                await trio.lowlevel.checkpoint()
            await at.lose("revoked")

        def enough() -> bool:
            return any(frame["type"] == "server.unsubscribed" for frame in frames)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk, at, at.above)
            nursery.start_soon(take_away)
            nursery.start_soon(collect, peer, frames, enough)

        (revoked,) = [i for i, f in enumerate(frames) if f.get("action") == "revoked"]
        assert seqs(frames[:revoked], at.above)
        assert not seqs(frames[revoked:], at.above)


async def test_a_decision_by_http_lands_before_the_answer_to_the_revoke_or_never() -> None:
    async with scene("approver") as at, httpx.AsyncClient(base_url=at.server.url) as http:
        chunk = {"type": "tool-input-available", "toolCallId": "c", "toolName": "Bash", "input": {}}
        run: list[dict[str, Any]] = [
            {"type": "run_started", "runId": "r"},
            {"type": "message_part", "runId": "r", "payload": {"chunk": chunk}},
        ]
        await at.server.append(at.above, run)
        payload = {"toolCallId": "c", "decision": "allow"}
        body = {"type": "tool_call_approval", "runId": "r", "payload": payload}
        path = f"/v1/threads/{at.above}/events"
        headers = {"Authorization": f"Bearer {at.eve.token}"}
        answered, wrong = trio.Event(), list[int]()

        async def keep_deciding() -> None:
            while True:
                late = answered.is_set()
                answer = await http.post(path, json=body, headers=headers)
                if answer.status_code == 404:
                    return
                wrong.extend([answer.status_code] if late or answer.status_code != 201 else [])

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(keep_deciding)
            await at.server.wait_for(at.above, lambda seen: len(seen) > 8)
            await at.lose("revoked")
            answered.set()

        log = await at.server.events(at.above)
        assert not wrong
        own = [e.type for e in log if e.principal_id in ("eve", "system")]
        assert own[-1] == "participant_left"
