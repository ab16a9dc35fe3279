"""A bot gives no more than member, lowers nobody by it, and takes back what it gave (3.2)."""

import pytest

from actors.events import Role
from scuba import wire
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import ON_SYSTEM, World, on_principal, on_thread, open_world, refused

FORBIDDEN = (403, "forbidden")


class Scene:
    """A thread of ada's with a bot on it, and an inheriting subthread that the bot owns."""

    def __init__(self, world: World, ada: Caller, bot: Caller, thread: str, child: str) -> None:
        self.world, self.ada, self.bot = world, ada, bot
        self.thread, self.child = thread, child

    async def above(self, name: str, role: Role) -> Caller:
        """Return somebody new with that role on the thread above."""
        who = await self.world.user(name)
        await self.world.grant(self.ada, self.thread, who, role)
        return who

    async def role(self, who: Caller) -> Role | None:
        return (await self.world.store.role_on(who, self.child))[0]


async def scene(world: World) -> Scene:
    ada = await world.user("ada")
    bot = await world.bot("bot", ada)
    thread = await world.thread(ada)
    await world.grant(ada, thread, bot, "member")
    _, child = await world.store.create_subthread(bot, thread, wire.NewSubthread())
    return Scene(world, ada, bot, thread, child.thread_id)


@pytest.mark.parametrize("role", ["owner", "approver", "tool_runner", "commenter"])
async def test_a_bot_gives_nothing_but_member(role: Role) -> None:
    async with open_world() as world:
        at = await scene(world)
        eve = await world.user("eve")

        assert await refused(world.grant(at.bot, at.child, eve, role)) == FORBIDDEN
        assert (await world.grant(at.bot, at.child, eve, "member")).role == "member"
        assert await refused(world.grant(at.bot, at.child, eve, role)) == FORBIDDEN


@pytest.mark.parametrize("role", ["owner", "approver", "tool_runner", "commenter"])
async def test_a_bot_changes_no_role_that_was_given(role: Role) -> None:
    async with open_world() as world:
        at = await scene(world)
        eve = await world.user("eve")
        await world.grant(at.ada, at.child, eve, role)

        assert await refused(world.grant(at.bot, at.child, eve, "member")) == FORBIDDEN
        kept, grant = await world.store.invite(at.bot, at.child, wire.NewInvite(principal_id="eve"))
        assert (kept, grant.role) == (False, role)
        assert await at.role(eve) == role


@pytest.mark.parametrize("role", ["owner", "approver", "tool_runner"])
async def test_nobody_is_lowered_by_being_made_a_member_below(role: Role) -> None:
    """A direct grant comes before an inherited one (3.3); an invite must not use that."""
    async with open_world() as world:
        at = await scene(world)
        eve, bob = await at.above("eve", role), await at.above("bob", "member")
        invite = wire.NewInvite(principal_id="eve")

        assert await refused(world.grant(at.bot, at.child, eve, "member")) == FORBIDDEN
        for who in (at.bot, bob, at.ada):
            assert await refused(world.store.invite(who, at.child, invite)) == FORBIDDEN
        assert await at.role(eve) == role
        if role != "owner":
            assert (await world.grant(at.ada, at.child, eve, "member")).role == "member"


@pytest.mark.parametrize("role", ["member", "commenter"])
async def test_whoever_loses_nothing_may_be_made_a_member(role: Role) -> None:
    async with open_world() as world:
        at = await scene(world)
        eve = await at.above("eve", role)

        assert (await world.grant(at.bot, at.child, eve, "member")).granted_by == "bot"
        assert await at.role(eve) == "member"


async def test_a_bot_takes_back_what_it_gave_and_nothing_else() -> None:
    async with open_world() as world:
        at = await scene(world)
        eve, bob, kim = [await world.user(name) for name in ("eve", "bob", "kim")]
        await world.grant(at.bot, at.child, eve, "member")
        await world.grant(at.bot, at.child, bob, "member")
        await world.grant(at.ada, at.child, bob, "approver")
        await world.grant(at.ada, at.child, kim, "member")

        await world.revoke(at.bot, at.child, eve)
        for other in (bob, kim):
            assert await refused(world.revoke(at.bot, at.child, other)) == FORBIDDEN
        await world.revoke(at.bot, at.child, eve)  # again is well
        await world.revoke(at.bot, at.child, at.bot)  # so is leaving


async def test_a_bot_shuts_nobody_out_of_what_is_inherited() -> None:
    async with open_world() as world:
        at = await scene(world)
        closed = world.store.change_thread(at.bot, at.child, wire.ThreadChange(access="direct"))
        assert await refused(closed) == FORBIDDEN

        other = wire.ThreadChange(title="t", members_can_invite=False)
        assert (await world.store.change_thread(at.bot, at.child, other)).title == "t"
        private = wire.NewSubthread(access="direct")
        _, made = await world.store.create_subthread(at.bot, at.thread, private)
        opened = wire.ThreadChange(access="inherit")
        assert (await world.store.change_thread(at.bot, made.thread_id, opened)).role == "owner"


async def test_a_bot_above_others_makes_and_unmakes_no_owner() -> None:
    """A user may hand a bot the ownership of a principal or of the system."""
    async with open_world() as world:
        at = await scene(world)
        eve, other = await world.user("eve"), await world.bot("other", at.ada)
        for target in (on_principal("other"), ON_SYSTEM):
            given = wire.NewGrant(target=target, principal_id="bot", role="owner")
            await world.store.put_grant(SYSTEM, given)
            more = wire.NewGrant(target=target, principal_id="eve", role="owner")
            assert await refused(world.store.put_grant(at.bot, more)) == FORBIDDEN
            await world.store.put_grant(SYSTEM, more)
            assert await refused(world.store.delete_grant(at.bot, target, "eve")) == FORBIDDEN
            await world.store.delete_grant(at.bot, target, "bot")
        assert await refused(world.grant(at.bot, at.thread, eve, "approver")) == FORBIDDEN
        assert other.id == "other"


async def test_a_bot_that_owns_the_system_decides_about_no_calls() -> None:
    async with open_world() as world:
        at = await scene(world)
        given = wire.NewGrant(target=ON_SYSTEM, principal_id="bot", role="owner")
        await world.store.put_grant(SYSTEM, given)
        eve = await world.user("eve")
        thread = await world.thread(eve)
        for role in ("owner", "approver", "tool_runner", "commenter"):
            assert await refused(world.grant(at.bot, thread, at.ada, role)) == FORBIDDEN
        assert await refused(world.revoke(at.bot, thread, eve)) == FORBIDDEN


async def test_nobody_owns_itself() -> None:
    async with open_world() as world:
        at = await scene(world)
        own = wire.NewGrant(target=on_principal("bot"), principal_id="bot", role="owner")

        for who in (at.ada, SYSTEM):
            assert await refused(world.store.put_grant(who, own)) == FORBIDDEN


async def test_deciding_roles_for_bots_come_from_users_and_systems() -> None:
    async with open_world() as world:
        at = await scene(world)
        other = await world.bot("other", at.ada)

        for role in ("approver", "tool_runner"):
            assert await refused(world.grant(at.bot, at.child, other, role)) == FORBIDDEN
            assert (await world.grant(at.ada, at.child, other, role)).role == role
            assert (await world.grant(SYSTEM, at.thread, other, role)).role == role
        assert (
            await refused(world.store.delete_grant(at.bot, on_thread(at.child), "other"))
            == FORBIDDEN
        )
