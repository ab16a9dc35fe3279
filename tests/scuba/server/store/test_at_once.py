"""What was taken from a principal is gone when that is answered, whatever is in flight (3.7).

Several tasks keep appending while another takes their authority away, in orders of chance.
"""

import random
from collections.abc import Awaitable, Callable

import pytest
import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller, Committed
from tests.kit.store import (
    World,
    answer,
    decide,
    event,
    finished,
    interrupt,
    open_world,
    started,
    text,
    tool_call,
)

DISABLED = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")


class Scene:
    """A thread of ada's, a worker's open run on it, and `who`, about to lose something."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def set_up(self, role: str) -> None:
        world = self.world
        self.ada = await world.user("ada")
        self.who = await world.bot("who", self.ada)
        worker = await world.bot("worker", self.ada)
        self.above = await world.thread(self.ada)
        body = wire.NewSubthread()
        self.thread = (await world.store.create_subthread(self.ada, self.above, body))[1].thread_id
        await world.grant(self.ada, self.above, worker, "member")
        await world.append(worker, self.thread, started("work"), tool_call("c", "work"))
        await world.grant(self.ada, self.above, self.who, role)  # type: ignore[arg-type]  # a role

    async def lose(self, how: str) -> None:
        world, who = self.world, self.who
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "revoked": lambda: world.revoke(self.ada, self.above, who),
            "left": lambda: world.revoke(who, self.above, who),
            "demoted": lambda: world.grant(self.ada, self.above, who, "commenter"),
            "lowered here": lambda: world.grant(self.ada, self.thread, who, "commenter"),
            "disabled": lambda: world.store.change_principal(self.ada, who.id, DISABLED),
            "token revoked": lambda: world.store.revoke_tokens(self.ada, who.id, who.token_id),
            "shut out": lambda: world.store.change_thread(
                self.ada, self.thread, wire.ThreadChange(access="direct")
            ),
            "archived": lambda: world.store.change_thread(
                self.ada, self.thread, wire.ThreadChange(archived_at="2026-11-30T12:00:00Z")
            ),
        }
        await ways[how]()

    def late(self, since: int) -> list[wire.Envelope]:
        """Return what `who` appended after the commit in which it lost something."""
        lost = False
        found: list[wire.Envelope] = []
        for change in self.world.changes[since:]:
            if not isinstance(change, Committed):
                lost = True  # nobody else does anything meanwhile
            elif change.thread_id == self.thread:
                own = [one for one in change.events if one.principal_id == self.who.id]
                lost = lost or not own
                found += own if lost else []
        assert lost
        return found


async def race(at: Scene, how: str, seed: int, make: Callable[[int], list[wire.NewEvent]]) -> None:
    """Append from several tasks until it is refused; take it away somewhere in between."""
    chance = random.Random(seed)
    lost = trio.Event()
    wrong: list[object] = []
    since = len(at.world.changes)

    async def keep_on(worker: int) -> None:
        for number in range(200):
            was_lost = lost.is_set()
            try:
                await at.world.append(at.who, at.thread, *make(worker * 1_000 + number))
            except Problem as problem:
                wrong.extend([problem] if problem.status not in (401, 403, 404, 409) else [])
                return
            wrong.extend(["landed after the loss was answered"] if was_lost else [])
        wrong.append("never refused")

    async with trio.open_nursery() as nursery:
        for worker in range(4):
            nursery.start_soon(keep_on, worker)
        for _ in range(chance.randrange(1, 40)):
            await trio.lowlevel.checkpoint()
        await at.lose(how)
        lost.set()

    assert not wrong
    assert not at.late(since)
    log = await at.world.log(SYSTEM, at.thread)
    assert [e.seq for e in log] == list(range(1, len(log) + 1))


@pytest.mark.parametrize(
    "how",
    [
        "revoked",
        "left",
        "demoted",
        "lowered here",
        "disabled",
        "token revoked",
        "shut out",
        "archived",
    ],
)
async def test_no_run_goes_on_after_its_authors_loss(how: str) -> None:
    async with open_world() as world:
        at = Scene(world)
        await at.set_up("member")
        await race(
            at,
            how,
            len(how),
            lambda n: [started(f"r{n}"), text("x", f"r{n}"), finished(f"r{n}")],
        )


@pytest.mark.parametrize("how", ["revoked", "disabled", "shut out"])
async def test_no_word_is_said_after_the_speakers_loss(how: str) -> None:
    async with open_world() as world:
        at = Scene(world)
        await at.set_up("commenter")
        await race(at, how, len(how), lambda n: [text(f"word {n}")])


@pytest.mark.parametrize("how", ["revoked", "demoted", "lowered here"])
@pytest.mark.parametrize("role", ["approver", "tool_runner"])
async def test_no_decision_is_taken_after_the_deciders_loss(role: str, how: str) -> None:
    async with open_world() as world:
        at = Scene(world)
        await at.set_up(role)
        make = decide if role == "approver" else answer
        await race(at, how, 7, lambda _: [make("work", "c")])


async def test_no_run_is_interrupted_after_the_loss() -> None:
    async with open_world() as world:
        at = Scene(world)
        await at.set_up("approver")
        await race(at, "demoted", 3, lambda _: [interrupt("work")])


async def test_every_run_of_who_is_gone_has_ended() -> None:
    """The append of a beginning and the loss that ends it never miss each other (5.6)."""
    async with open_world() as world:
        at = Scene(world)
        await at.set_up("member")
        await race(at, "demoted", 5, lambda n: [started(f"r{n}"), event("x.acme.mark")])

        runs = (await world.store.thread(SYSTEM, at.thread)).active_runs
        assert [run.run_id for run in runs] == ["work"]


async def test_two_who_take_from_each_other_leave_one_decision() -> None:
    """Whichever comes first stands; the other's caller is gone, and is told so."""
    async with open_world() as world:
        ada, eve = await world.user("ada"), await world.user("eve")
        thread = await world.thread(ada)
        await world.grant(ada, thread, eve, "owner")
        told: list[str] = []

        async def remove(by: Caller, whom: Caller) -> None:
            try:
                await world.revoke(by, thread, whom)
                told.append("done")
            except Problem as problem:
                told.append(problem.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(remove, ada, eve)
            nursery.start_soon(remove, eve, ada)

        assert sorted(told) == ["done", "thread_not_found"]
