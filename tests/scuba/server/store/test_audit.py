"""The audit: each change of who may what, by whom, when, in which request; no token (14.4)."""

import re
from pathlib import Path

import msgspec

from scuba import wire
from scuba.server.store import SYSTEM, Caller
from scuba.server.store.audit import AuditRow
from tests.kit.store import ON_SYSTEM, World, open_world, refused

STORE = Path(__file__).parents[4] / "scuba" / "server" / "store"


async def rows(world: World) -> list[AuditRow]:
    found, _ = await world.store.audit_rows(SYSTEM, limit=1_000, after=None)
    return found


def asking(caller: Caller, request_id: str) -> Caller:
    return msgspec.structs.replace(caller, request_id=request_id)


async def test_every_change_is_there_with_its_request() -> None:
    async with open_world() as world:
        store = world.store
        root = await world.user("root")
        owner = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await store.put_grant(SYSTEM, owner)
        ada = asking(await world.user("ada"), "req_ada")
        before = len(await rows(world))
        bot = wire.NewPrincipal(principal_id="bot", kind="bot")
        _, made = await store.create_principal(ada, bot)
        minted = await store.mint_token(ada, "bot", wire.NewToken(revoke_others=True))
        thread_id = await world.thread(ada)
        await world.grant(ada, thread_id, "bot", "member")
        await world.grant(ada, thread_id, "bot", "approver")
        await world.store.delete_grant(ada, wire.Target(type="thread", thread_id=thread_id), "bot")
        await store.change_principal(ada, "bot", wire.PrincipalChange(display_name="B"))
        gone = wire.PrincipalChange(disabled_at="2026-01-01T00:00:00Z")
        await store.change_principal(asking(root, "req_root"), "bot", gone)
        back = wire.PrincipalChange(disabled_at=None)
        await store.change_principal(asking(root, "req_root"), "bot", back)
        await store.revoke_tokens(ada, "bot", None)

        found = (await rows(world))[before:]
        told = [(row.principal_id, row.action, row.subject, row.request_id) for row in found]
        assert made.token is not None
        first, second = made.token.token_id, minted.token_id
        assert told == [
            ("ada", "create", "bot", "req_ada"),
            ("ada", "grant", "ada", "req_ada"),
            ("ada", "mint", "bot", "req_ada"),
            ("ada", "revoke", "bot", "req_ada"),
            ("ada", "mint", "bot", "req_ada"),
            ("ada", "grant", "ada", "req_ada"),
            ("ada", "grant", "bot", "req_ada"),
            ("ada", "change", "bot", "req_ada"),
            ("ada", "revoke", "bot", "req_ada"),
            ("ada", "change", "bot", "req_ada"),
            ("root", "disable", "bot", "req_root"),
            ("root", "enable", "bot", "req_root"),
            ("ada", "revoke", "bot", "req_ada"),
        ]
        assert made.token is not None
        first, second = made.token.token_id, minted.token_id
        assert [row.detail for row in found[:5]] == [
            "bot", "owner on principal bot", first, first, second,
        ]  # fmt: skip
        assert found[7].detail == f"approver on thread {thread_id}"
        assert found[9].detail == "display_name"
        assert found[-1].detail == second


async def test_what_was_refused_is_not_in_it() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        eve = await world.user("eve")
        await world.bot("bot", ada)
        before = await rows(world)
        await refused(world.store.mint_token(eve, "bot", wire.NewToken()))
        await refused(
            world.store.create_principal(eve, wire.NewPrincipal(principal_id="bot", kind="bot"))
        )
        await refused(world.store.revoke_tokens(eve, "bot", None))

        assert await rows(world) == before


async def test_no_row_holds_a_token() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        await world.bot("bot", ada)
        minted = await world.store.mint_token(ada, "bot", wire.NewToken(revoke_others=True))
        text = repr(await rows(world))

        assert minted.token is not None
        for token in (*world.tokens.values(), minted.token):
            assert token not in text
            assert token[-6:] not in text
        assert not re.search(r"bubble_(agent|user)_", text)


async def test_only_a_system_owner_reads_it_in_pages() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        for number in range(5):
            world.clock.pass_s(1)
            await world.bot(f"bot-{number}", ada)
        assert await refused(world.store.audit_rows(ada, limit=9, after=None)) == (403, "forbidden")
        everything = await rows(world)
        pages: list[AuditRow] = []
        after = None
        while True:
            page, after = await world.store.audit_rows(SYSTEM, limit=3, after=after)
            pages += page
            if after is None:
                break

        assert pages == everything
        assert [row.at for row in pages] == sorted(row.at for row in pages)


def test_nothing_in_the_store_changes_or_removes_a_row() -> None:
    """It only grows: no statement of ours says otherwise."""
    for path in STORE.glob("*.py"):
        text = path.read_text()
        assert not re.search(r"(UPDATE|DELETE FROM|DROP TABLE|REPLACE INTO)\s+audit\b", text), path


async def test_a_master_key_leaves_a_trace_each_time_and_unknown_ids_leave_none() -> None:
    async with open_world() as world:
        await world.user("ada")
        before = len(await rows(world))
        for request_id in ("req_1", "req_2"):
            caller = await world.store.identities.act_as("ada", request_id)
            assert caller is not None
            assert (caller.id, caller.token_id, caller.expires_at) == ("ada", None, None)
        for nobody in ("eve", "system", "", "a b", "x" * 200, "\0", "-"):
            assert await world.store.identities.act_as(nobody, "req_3") is None

        found = (await rows(world))[before:]
        assert [(row.action, row.subject, row.request_id) for row in found] == [
            ("master_key", "ada", "req_1"),
            ("master_key", "ada", "req_2"),
        ]
        gone = wire.PrincipalChange(disabled_at="2026-01-01T00:00:00Z")
        await world.store.change_principal(SYSTEM, "ada", gone)
        call = world.store.identities.act_as("ada", "req_4")
        assert await refused(call) == (403, "principal_disabled")
