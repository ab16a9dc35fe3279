"""A run whose author may finish it no more is finished in the same breath (5.6)."""

from collections.abc import Awaitable, Callable

import pytest

from actors.events import Role
from scuba import wire
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import (
    ON_SYSTEM,
    World,
    finished,
    open_world,
    refused,
    said,
    started,
    text,
)

GONE = {"status": "failed", "reason": "author_gone"}
DISABLED = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")


class Scene:
    """An owner, a member bot with an open run on a thread and on an inheriting subthread."""

    def __init__(self, world: World, ada: Caller, bot: Caller, thread: str, child: str) -> None:
        self.world, self.ada, self.bot = world, ada, bot
        self.thread, self.child = thread, child

    async def open_runs(self) -> set[str]:
        views = [await self.world.store.thread(SYSTEM, id_) for id_ in (self.thread, self.child)]
        return {run.run_id for view in views for run in view.active_runs}


async def scene(world: World) -> Scene:
    ada = await world.user("ada")
    bot = await world.bot("bot", ada)
    thread = await world.thread(ada)
    await world.grant(ada, thread, bot, "member")
    _, child = await world.store.create_subthread(ada, thread, wire.NewSubthread())
    await world.append(bot, thread, started("above"), text("x", "above"))
    await world.append(bot, child.thread_id, started("below"))
    return Scene(world, ada, bot, thread, child.thread_id)


CHANGES: dict[str, tuple[Callable[[Scene], Awaitable[object]], set[str]]] = {
    "nothing": (lambda s: s.world.grant(s.ada, s.thread, s.bot, "member"), {"above", "below"}),
    "raised": (lambda s: s.world.grant(s.ada, s.thread, s.bot, "owner"), {"above", "below"}),
    "approver": (lambda s: s.world.grant(s.ada, s.thread, s.bot, "approver"), set()),
    "tool_runner": (lambda s: s.world.grant(s.ada, s.thread, s.bot, "tool_runner"), set()),
    "commenter": (lambda s: s.world.grant(s.ada, s.thread, s.bot, "commenter"), set()),
    "revoked": (lambda s: s.world.revoke(s.ada, s.thread, s.bot), set()),
    "left": (lambda s: s.world.revoke(s.bot, s.thread, s.bot), set()),
    "disabled": (lambda s: s.world.store.change_principal(s.ada, "bot", DISABLED), set()),
    "lowered below": (lambda s: s.world.grant(s.ada, s.child, s.bot, "commenter"), {"above"}),
    "member below": (lambda s: s.world.grant(s.ada, s.child, s.bot, "member"), {"above", "below"}),
    "shut out below": (
        lambda s: s.world.store.change_thread(s.ada, s.child, wire.ThreadChange(access="direct")),
        {"above"},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_an_author_may_not_finish_is_finished(name: str) -> None:
    change, left_open = CHANGES[name]
    async with open_world() as world:
        at = await scene(world)
        await change(at)

        assert await at.open_runs() == left_open
        for thread, run in ((at.thread, "above"), (at.child, "below")):
            log = await world.log(SYSTEM, thread)
            ends = [e for e in log if e.type == "run_finished"]
            told = [(e.run_id, e.principal_id, said(e)) for e in ends]
            assert told == ([] if run in left_open else [(run, "system", GONE)])


async def test_an_own_grant_below_keeps_what_runs_there() -> None:
    async with open_world() as world:
        at = await scene(world)
        await world.grant(at.ada, at.child, at.bot, "member")
        await world.grant(at.ada, at.thread, at.bot, "commenter")
        assert await at.open_runs() == {"below"}

        await world.append(at.bot, at.child, finished("below"))
        assert await at.open_runs() == set()


async def test_a_run_is_lost_once_in_the_order_of_its_beginning() -> None:
    async with open_world() as world:
        at = await scene(world)
        await world.append(at.bot, at.thread, started("second"), started("third"))
        await world.append(at.bot, at.thread, finished("second"))
        await world.grant(at.ada, at.thread, at.bot, "commenter")
        await world.revoke(at.ada, at.thread, at.bot)

        log = await world.log(at.ada, at.thread)
        assert [e.run_id for e in log if e.principal_id == "system"] == ["above", "third"]
        assert [e.type for e in log[-4:]] == [
            "run_finished",
            "run_finished",
            "participant_role_changed",
            "participant_left",
        ]


async def test_a_system_owner_that_is_one_no_more_loses_its_runs_everywhere() -> None:
    async with open_world() as world:
        at = await scene(world)
        root = await world.user("root")
        grant = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await world.store.put_grant(SYSTEM, grant)
        await world.append(root, at.thread, started("of_root"))
        await world.store.delete_grant(SYSTEM, ON_SYSTEM, "root")

        assert await at.open_runs() == {"above", "below"}
        assert (await world.store.run(at.ada, at.thread, "of_root")).status == "failed"


async def test_a_subthread_that_inherits_again_keeps_the_runs_of_those_above() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        roles: list[tuple[str, Role]] = [("eve", "member"), ("bob", "commenter")]
        eve, bob = [await world.user(name) for name, _ in roles]
        thread = await world.thread(ada)
        direct = wire.NewSubthread(access="direct")
        _, child = await world.store.create_subthread(ada, thread, direct)
        _, deep = await world.store.create_subthread(ada, child.thread_id, wire.NewSubthread())
        for who, role in ((eve, "member"), (bob, "commenter")):
            await world.grant(ada, thread, who, role)  # type: ignore[arg-type]  # both are roles
            await world.grant(ada, child.thread_id, who, "member")
        await world.append(eve, deep.thread_id, started("of_eve"))
        await world.append(bob, deep.thread_id, started("of_bob"))
        change = wire.ThreadChange(access="inherit")
        await world.store.change_thread(ada, child.thread_id, change)

        runs = (await world.store.thread(ada, deep.thread_id)).active_runs
        assert [run.run_id for run in runs] == ["of_eve"]
        late = world.append(bob, deep.thread_id, text("x", "of_bob"))
        assert await refused(late) == (403, "forbidden")
