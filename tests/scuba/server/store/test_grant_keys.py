"""A grant asked for again under its key changes nothing, however late it comes (3.4)."""

import pytest

from scuba import wire
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import World, on_principal, on_thread, open_world, refused


async def scene(world: World) -> tuple[Caller, Caller, str]:
    ada, eve = await world.user("ada"), await world.user("eve")
    return ada, eve, await world.thread(ada)


def grant(thread_id: str, role: str = "approver", key: str = "k") -> wire.NewGrant:
    target = on_thread(thread_id)
    return wire.NewGrant(target=target, principal_id="eve", role=role, key=key)  # type: ignore[arg-type]  # a role


async def test_a_late_repeat_gives_back_nothing_that_was_taken() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await scene(world)
        new, first = await world.store.put_grant(ada, grant(thread_id))
        await world.revoke(ada, thread_id, eve)
        again, answer = await world.store.put_grant(ada, grant(thread_id))

        assert (new, again, answer) == (True, False, first)
        assert await world.store.role_on(eve, thread_id) == (None, 0)
        await world.store.put_grant(ada, grant(thread_id, key="k2"))
        assert (await world.store.role_on(eve, thread_id))[0] == "approver"


async def test_a_late_repeat_changes_no_role_back() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await scene(world)
        invite = wire.NewInvite(principal_id="eve", key="k")
        new, first = await world.store.invite(ada, thread_id, invite)
        await world.grant(ada, thread_id, eve, "commenter")
        again, answer = await world.store.invite(ada, thread_id, invite)

        assert (new, again, answer) == (True, False, first)
        assert (await world.store.role_on(eve, thread_id))[0] == "commenter"


async def test_without_a_key_the_same_grant_is_given_anew() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await scene(world)
        await world.grant(ada, thread_id, eve, "member")
        await world.revoke(ada, thread_id, eve)

        assert (await world.grant(ada, thread_id, eve, "member")).joined_seq == 5


async def test_a_key_is_one_callers_and_for_one_grant() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await scene(world)
        other = await world.thread(ada)
        await world.store.put_grant(ada, grant(thread_id))
        conflict = (409, "key_conflict")
        for body in (grant(other), grant(thread_id, "member")):
            assert await refused(world.store.put_grant(ada, body)) == conflict
        invite = world.store.invite(ada, thread_id, wire.NewInvite(principal_id="eve", key="k"))
        assert await refused(invite) == conflict

        new, kept = await world.store.put_grant(SYSTEM, grant(thread_id))
        assert (new, kept.granted_by) == (False, "ada")
        assert eve.id == "eve"


async def test_a_key_is_for_ownership_too() -> None:
    async with open_world() as world:
        ada, _, _ = await scene(world)
        await world.bot("bot", ada)
        target = on_principal("bot")
        body = wire.NewGrant(target=target, principal_id="eve", role="owner", key="k")
        await world.store.put_grant(ada, body)
        await world.store.delete_grant(ada, target, "eve")
        assert (await world.store.put_grant(ada, body))[0] is False

        assert (await world.store.principal(ada, "bot")).owner_principal_ids == ["ada"]


async def test_who_may_not_see_the_thread_any_more_is_told_nothing() -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)
        bob = await world.user("bob")
        await world.grant(ada, thread_id, bob, "owner")
        await world.store.put_grant(bob, grant(thread_id))
        await world.revoke(ada, thread_id, bob)

        late = world.store.put_grant(bob, grant(thread_id))
        assert await refused(late) == (404, "thread_not_found")


@pytest.mark.parametrize("key", ["", "x" * 201, "ä", "a\nb"])
async def test_a_key_has_the_form_of_a_key(key: str) -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)

        bad = world.store.put_grant(ada, grant(thread_id, key=key))
        assert await refused(bad) == (400, "invalid_json")


async def test_what_was_refused_keeps_no_key() -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)
        body = wire.NewInvite(principal_id="bob", key="k")
        early = world.store.invite(ada, thread_id, body)
        assert await refused(early) == (404, "principal_not_found")
        await world.user("bob")

        assert (await world.store.invite(ada, thread_id, body))[0] is True
