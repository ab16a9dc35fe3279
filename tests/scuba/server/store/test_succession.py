"""No thread loses its last owner, by whatever way it would go (3.4)."""

import trio

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import World, open_world, refused, said

LAST = (409, "last_owner")
DISABLED = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")


async def owned(world: World) -> tuple[Caller, Caller, str]:
    """Return the owner of a thread, somebody else, and the thread."""
    ada, eve = await world.user("ada"), await world.user("eve")
    return ada, eve, await world.thread(ada)


async def below(world: World, who: Caller, parent: str, access: wire.Access = "inherit") -> str:
    made = await world.store.create_subthread(who, parent, wire.NewSubthread(access=access))
    return made[1].thread_id


async def test_the_last_owner_neither_leaves_nor_steps_down() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        roles: tuple[Role, ...] = ("member", "commenter", "approver", "tool_runner")

        assert await refused(world.revoke(ada, thread_id, ada)) == LAST
        assert await refused(world.revoke(SYSTEM, thread_id, ada)) == LAST
        for role in roles:
            assert await refused(world.grant(ada, thread_id, ada, role)) == LAST
            assert await refused(world.grant(SYSTEM, thread_id, ada, role)) == LAST
        await world.grant(ada, thread_id, eve, "owner")
        await world.revoke(ada, thread_id, ada)
        left = said((await world.log(eve, thread_id))[-1])
        assert left == {"principalId": "ada", "by": "ada", "cause": "left"}


async def test_a_disabled_owner_is_none() -> None:
    """Disabling itself is never refused: it must work when a token has been stolen."""
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "owner")
        await world.store.change_principal(SYSTEM, "eve", DISABLED)
        assert await refused(world.revoke(ada, thread_id, ada)) == LAST

        await world.store.change_principal(SYSTEM, "ada", DISABLED)
        assert await refused(world.revoke(SYSTEM, thread_id, ada)) == LAST
        await world.grant(SYSTEM, thread_id, await world.user("heir"), "owner")
        await world.revoke(SYSTEM, thread_id, ada)


async def test_who_owns_by_inheritance_lets_the_last_direct_owner_go() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "member")
        child = await below(world, eve, thread_id)
        await world.revoke(eve, child, eve)

        assert (await world.store.thread(ada, child)).participants == []


async def test_an_inherited_owner_with_a_smaller_direct_role_is_none() -> None:
    """Chapter 3.3: the direct grant comes first."""
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "member")
        child = await below(world, eve, thread_id)
        await world.grant(eve, child, ada, "commenter")

        assert await refused(world.revoke(eve, child, eve)) == LAST
        assert await refused(world.grant(eve, child, eve, "member")) == LAST


async def test_the_last_inherited_owner_of_a_subthread_cannot_be_lowered_on_it() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "member")
        child = await below(world, eve, thread_id)
        await world.revoke(eve, child, eve)

        assert await refused(world.grant(ada, child, ada, "member")) == LAST


async def test_leaving_a_thread_counts_the_subthreads_that_it_owns() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "owner")
        child = await below(world, ada, thread_id)
        await world.grant(ada, child, eve, "commenter")
        await world.revoke(ada, child, ada)  # now only by inheritance

        assert await refused(world.revoke(ada, thread_id, ada)) == LAST
        await world.revoke(eve, thread_id, eve)


async def test_a_thread_is_not_closed_to_its_only_owners() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "member")
        child = await below(world, eve, thread_id)
        await world.revoke(eve, child, eve)
        closed = wire.ThreadChange(access="direct")

        assert await refused(world.store.change_thread(ada, child, closed)) == LAST
        await world.grant(ada, child, ada, "owner")
        assert (await world.store.change_thread(ada, child, closed)).role == "owner"


async def test_two_owners_who_go_at_once_leave_one() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await owned(world)
        await world.grant(ada, thread_id, eve, "owner")
        codes: list[str] = []

        async def remove(by: Caller, whom: Caller) -> None:
            try:
                await world.revoke(by, thread_id, whom)
                codes.append("gone")
            except Problem as error:
                codes.append(error.code)

        async with trio.open_nursery() as nursery:
            for by, whom in ((ada, eve), (eve, ada), (ada, ada), (eve, eve)):
                nursery.start_soon(remove, by, whom)

        assert codes.count("gone") >= 1
        view = await world.store.thread(SYSTEM, thread_id)
        assert [p.role for p in view.participants] == ["owner"]
