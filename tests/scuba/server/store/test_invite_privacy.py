"""Whom a caller may add, over every combination of what counts, by both calls (3.5)."""

from itertools import product

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import ON_SYSTEM, World, on_principal, on_thread, open_world

FACTS = ("open", "discoverable", "owned", "in_parent", "met_elsewhere", "disabled")
DISABLED = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")


def expected(facts: dict[str, bool]) -> str:
    """Chapter 3.5, sentence by sentence."""
    if facts["owned"]:
        return "added"
    if facts["disabled"]:
        return "404 principal_not_found"
    if facts["open"] or facts["in_parent"]:
        return "added"
    # Who takes part in a common thread is seen (2.6)
    seen = facts["discoverable"] or facts["met_elsewhere"]
    return "403 invites_closed" if seen else "404 principal_not_found"


class Scene:
    """Eve with a subthread of her own below a thread that she cannot read any more."""

    async def set_up(self, world: World) -> None:
        self.world = world
        self.ada, self.eve = await world.user("ada"), await world.user("eve")
        self.parent = await world.thread(self.ada)
        await world.grant(self.ada, self.parent, self.eve, "member")
        body = wire.NewSubthread(access="direct")
        made = await world.store.create_subthread(self.eve, self.parent, body)
        self.child = made[1].thread_id
        self.elsewhere = await world.thread(self.ada)
        await world.grant(self.ada, self.elsewhere, self.eve, "commenter")
        await world.revoke(self.ada, self.parent, self.eve)

    async def somebody(self, name: str, facts: dict[str, bool]) -> None:
        """Make a bot of ada's of which these facts are true."""
        bot = await self.world.bot(
            name, self.ada, open_to_invites=facts["open"], discoverable=facts["discoverable"]
        )
        if facts["owned"]:
            body = wire.NewGrant(target=on_principal(name), principal_id="eve", role="owner")
            await self.world.store.put_grant(self.ada, body)
        if facts["in_parent"]:
            await self.world.grant(self.ada, self.parent, bot, "member")
        if facts["met_elsewhere"]:
            await self.world.grant(self.ada, self.elsewhere, bot, "member")
        if facts["disabled"]:
            await self.world.store.change_principal(SYSTEM, name, DISABLED)

    async def add(self, by: Caller, name: str, call: str) -> str:
        store, target = self.world.store, on_thread(self.child)
        try:
            if call == "invite":
                body = wire.NewInvite(principal_id=name)
                await store.invite(by, self.child, body)
            else:
                new = wire.NewGrant(target=target, principal_id=name, role="commenter")
                await store.put_grant(by, new)
        except Problem as problem:
            return f"{problem.status} {problem.code}"
        return "added"


async def test_who_may_be_added_follows_from_what_is_written() -> None:
    async with open_world() as world:
        at = Scene()
        await at.set_up(world)
        for number, values in enumerate(product((False, True), repeat=len(FACTS))):
            facts = dict(zip(FACTS, values, strict=True))
            await at.somebody(f"bot-{number}", facts)

            call = "grant" if number.bit_count() % 2 else "invite"
            assert await at.add(at.eve, f"bot-{number}", call) == expected(facts), facts


async def test_a_system_owner_adds_whom_it_likes() -> None:
    async with open_world() as world:
        at = Scene()
        await at.set_up(world)
        root = await world.user("root")
        body = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await world.store.put_grant(SYSTEM, body)
        for disabled in (False, True):
            name = f"bot-{disabled}"
            await at.somebody(name, dict.fromkeys(FACTS, False) | {"disabled": disabled})
            assert await at.add(root, name, "invite") == "added"


async def test_nobody_needs_an_invitation_from_itself() -> None:
    """An owner by inheritance takes part of its own will, open to invites or not."""
    async with open_world() as world:
        ada = await world.user("ada", open_to_invites=False, discoverable=False)
        eve = await world.user("eve")
        top = await world.thread(ada)
        await world.grant(ada, top, eve, "member")
        middle = (await world.store.create_subthread(eve, top, wire.NewSubthread()))[1].thread_id
        low = (await world.store.create_subthread(eve, middle, wire.NewSubthread()))[1].thread_id

        assert (await world.grant(ada, low, ada, "owner")).role == "owner"


async def test_a_disabled_principal_that_is_added_is_not_there_before_it_is_enabled() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada)
        await world.store.change_principal(ada, "bot", DISABLED)
        thread = await world.thread(ada)
        await world.grant(ada, thread, bot, "member")
        view = await world.store.thread(ada, thread)
        assert [p.principal_id for p in view.participants] == ["ada"]
        assert [e.type for e in await world.log(ada, thread)][-2:] == [
            "participant_joined",
            "participant_left",
        ]

        await world.store.change_principal(ada, "bot", wire.PrincipalChange(disabled_at=None))
        view = await world.store.thread(ada, thread)
        assert [(p.principal_id, p.joined_seq) for p in view.participants][1] == ("bot", 5)
