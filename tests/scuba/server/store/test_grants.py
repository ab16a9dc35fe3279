"""Grants: who may be added, who may go, and the stream in which a bot hears of it (3.4, 3.5, 9)."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from actors.events import Role
from scuba import wire
from scuba.server.store import SYSTEM, AccessChanged, Caller, Committed, GrantChanged
from scuba.server.store.granted import snapshot
from scuba.server.store.sqlite import SqliteTx
from tests.kit.store import (
    ON_SYSTEM,
    World,
    finished,
    on_principal,
    on_thread,
    open_world,
    problem,
    refused,
    said,
    started,
    text,
)


async def pair(world: World) -> tuple[Caller, Caller, str]:
    ada = await world.user("ada")
    bot = await world.bot("bot", ada)
    thread_id = await world.thread(ada)
    await world.grant(ada, thread_id, bot, "member")
    return ada, bot, thread_id


# --- joining, changing, leaving ----------------------------------------------------------------


async def test_joined_seq_is_that_of_the_latest_join() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        again = await world.grant(ada, thread_id, bot, "member")
        raised = await world.grant(ada, thread_id, bot, "approver")
        assert (again.joined_seq, raised.joined_seq) == (3, 3)

        await world.revoke(ada, thread_id, bot)
        back = await world.grant(ada, thread_id, bot, "member")
        assert back.joined_seq == 6
        log = [(e.type, e.principal_id, said(e)) for e in (await world.log(ada, thread_id))[2:]]
        joined = {"principalId": "bot", "role": "member", "by": "ada"}
        assert log == [
            ("participant_joined", "ada", joined),
            ("participant_role_changed", "ada", joined | {"role": "approver"}),
            ("participant_left", "ada", {"principalId": "bot", "by": "ada", "cause": "revoked"}),
            ("participant_joined", "ada", joined),
        ]


async def test_an_invite_makes_a_member_and_changes_nobody() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        eve = await world.user("eve")
        await world.grant(ada, thread_id, bot, "approver")
        body = wire.NewInvite(principal_id="bot")
        kept, grant = await world.store.invite(ada, thread_id, body)
        new, other = await world.store.invite(ada, thread_id, wire.NewInvite(principal_id="eve"))

        assert (kept, grant.role) == (False, "approver")
        assert (new, other.role, other.granted_by) == (True, "member", "ada")
        assert (await world.store.role_on(eve, thread_id))[0] == "member"


async def test_leaving_twice_is_said_once() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        await world.revoke(bot, thread_id, bot)
        head = (await world.log(ada, thread_id))[-1].seq
        await world.revoke(bot, thread_id, bot)
        await world.revoke(ada, thread_id, bot)

        assert (await world.log(ada, thread_id))[-1].seq == head


# --- who is gone -------------------------------------------------------------------------------


async def test_the_runs_of_a_revoked_author_end_in_the_same_breath() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        await world.append(bot, thread_id, started("r1"), text("x", "r1"), started("r2"))
        await world.append(bot, thread_id, started("r3"), finished("r3"))
        await world.revoke(ada, thread_id, bot)
        ends = [e for e in await world.log(ada, thread_id) if e.principal_id == "system"]

        assert [(e.type, e.run_id, said(e)) for e in ends] == [
            ("run_finished", run, {"status": "failed", "reason": "author_gone"})
            for run in ("r1", "r2")
        ]
        assert (await world.store.run(ada, thread_id, "r1")).status == "failed"
        assert (await world.store.run(ada, thread_id, "r3")).status == "completed"
        assert (await world.store.thread(ada, thread_id)).active_runs == []


async def test_runs_reached_only_through_the_lost_thread_end_too() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        _, other = await world.store.create_subthread(ada, thread_id, wire.NewSubthread())
        _, own = await world.store.create_subthread(bot, thread_id, wire.NewSubthread())
        await world.append(bot, other.thread_id, started("reached"))
        await world.append(bot, own.thread_id, started("own"))
        await world.revoke(ada, thread_id, bot)

        assert (await world.store.run(ada, other.thread_id, "reached")).status == "failed"
        assert (await world.store.run(ada, own.thread_id, "own")).status == "open"


async def test_a_disabled_principal_is_gone_from_everywhere_and_may_come_back() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        await world.append(bot, thread_id, started("r"))
        disabled = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")
        await world.store.change_principal(ada, "bot", disabled)

        tail = [(e.type, said(e)) for e in (await world.log(ada, thread_id))[-2:]]
        assert tail == [
            ("run_finished", {"status": "failed", "reason": "author_gone"}),
            ("participant_left", {"principalId": "bot", "by": "ada", "cause": "disabled"}),
        ]
        view = await world.store.thread(ada, thread_id)
        assert [p.principal_id for p in view.participants] == ["ada"]
        gone = (403, "principal_disabled")
        assert await refused(world.store.identify(world.tokens["bot"])) == gone
        assert await refused(world.append(bot, thread_id, text("x"))) == gone
        assert await world.store.role_on(bot, thread_id) == (None, 0)

        await world.store.change_principal(ada, "bot", wire.PrincipalChange(disabled_at=None))
        _, (grant,) = await world.store.grants_snapshot("bot")
        assert (grant.role, grant.joined_seq) == ("member", grant.last_seq)
        await world.append(bot, thread_id, text("back"))


# --- invite privacy ----------------------------------------------------------------------------


async def test_nobody_learns_of_a_principal_by_trying_to_add_it() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        eve = await world.user("eve")
        await world.bot("hidden", ada)
        thread_id = await world.thread(eve)
        errors = [
            await problem(world.grant(eve, thread_id, name, "member"))
            for name in ("hidden", "unknown")
        ] + [
            await problem(world.store.invite(eve, thread_id, wire.NewInvite(principal_id=name)))
            for name in ("hidden", "unknown")
        ]

        assert {(e.status, e.code, e.detail) for e in errors} == {
            (404, "principal_not_found", "no such principal")
        }


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, (404, "principal_not_found")),
        ({"discoverable": True}, (403, "invites_closed")),
        ({"open_to_invites": True}, None),
        ({"open_to_invites": True, "discoverable": True}, None),
    ],
    ids=["hidden", "seen but closed", "open", "open and seen"],
)
async def test_a_bot_is_added_if_it_is_open(
    fields: dict[str, bool], refusal: tuple[int, str] | None
) -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        eve = await world.user("eve")
        await world.bot("bot", ada, **fields)
        thread_id = await world.thread(eve)

        if refusal is None:
            assert (await world.grant(eve, thread_id, "bot", "member")).role == "member"
        else:
            assert await refused(world.grant(eve, thread_id, "bot", "member")) == refusal


async def test_a_participant_of_the_parent_may_be_added_below() -> None:
    async with open_world() as world:
        ada, _, thread_id = await pair(world)
        eve = await world.user("eve")
        await world.grant(ada, thread_id, eve, "owner")
        direct = wire.NewSubthread(access="direct")
        _, child = await world.store.create_subthread(eve, thread_id, direct)

        assert (await world.grant(eve, child.thread_id, "bot", "member")).role == "member"


async def test_a_disabled_principal_is_unknown_to_all_but_its_owners() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        eve = await world.user("eve")
        await world.bot("bot", ada, open_to_invites=True)
        disabled = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")
        await world.store.change_principal(ada, "bot", disabled)

        add = world.grant(eve, await world.thread(eve), "bot", "member")
        assert await refused(add) == (404, "principal_not_found")
        assert (await world.grant(ada, await world.thread(ada), "bot", "member")).role == "member"


# --- other targets -----------------------------------------------------------------------------


async def test_only_owner_means_something_on_principals_and_the_system() -> None:
    async with open_world() as world:
        ada, bot, _ = await pair(world)
        eve = await world.user("eve")
        roles: list[tuple[Role, wire.Target]] = [("member", on_principal("bot"))]
        roles.append(("approver", ON_SYSTEM))
        for role, target in roles:
            body = wire.NewGrant(target=target, principal_id="eve", role=role)
            assert await refused(world.store.put_grant(SYSTEM, body)) == (400, "invalid_json")

        share = wire.NewGrant(target=on_principal("bot"), principal_id="eve", role="owner")
        assert await refused(world.store.put_grant(eve, share)) == (404, "principal_not_found")
        assert (await world.store.put_grant(ada, share))[0] is True
        assert (await world.store.principal(eve, "bot")).owner_principal_ids == ["ada", "eve"]
        root = wire.NewGrant(target=ON_SYSTEM, principal_id="ada", role="owner")
        assert await refused(world.store.put_grant(ada, root)) == (403, "forbidden")
        assert await refused(world.store.put_grant(bot, root)) == (403, "forbidden")


@pytest.mark.parametrize(
    "target",
    [
        wire.Target(type="thread"),
        wire.Target(type="principal", thread_id="thr_1"),
        wire.Target(type="system", thread_id="thr_1"),
        wire.Target(type="thread", thread_id="thr_1", principal_id="eve"),
    ],
    ids=["no id", "wrong id", "too many", "both"],
)
async def test_a_target_names_one_thing(target: wire.Target) -> None:
    async with open_world() as world:
        body = wire.NewGrant(target=target, principal_id="eve", role="owner")
        assert await refused(world.store.put_grant(SYSTEM, body)) == (400, "invalid_json")


async def test_lists_go_on_where_the_page_ended() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        for number in range(5):
            await world.grant(ada, thread_id, await world.user(f"u{number}"), "commenter")
        seen: list[str | None] = []
        after: str | None = None
        while True:
            page, after = await world.store.grants_on(
                ada, on_thread(thread_id), limit=3, after=after
            )
            seen += [grant.principal_id for grant in page]
            if after is None:
                break

        assert seen == ["ada", "bot", "u0", "u1", "u2", "u3", "u4"]
        everything, _ = await world.store.all_grants(SYSTEM, limit=100, after=None)
        assert len(everything) == 8
        for call in (
            world.store.all_grants(ada, limit=10, after=None),
            world.store.grants_of(bot, "ada", limit=10, after=None),
        ):
            assert await refused(call) == (403, "forbidden")
        for bad in ("nonsense", '["a","b"]', "[1]"):
            call = world.store.grants_on(ada, on_thread(thread_id), limit=3, after=bad)
            assert await refused(call) == (400, "invalid_query")


# --- the stream --------------------------------------------------------------------------------


async def test_the_grant_log_is_gapless_and_can_be_resumed_anywhere() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        await world.grant(ada, thread_id, bot, "approver")
        await world.revoke(ada, thread_id, bot)
        await world.grant(ada, thread_id, bot, "member")
        told = [c.change for c in world.told(GrantChanged) if c.principal_id == "bot"]

        assert [(c.grant_seq, c.action, c.grant.role) for c in told] == [
            (1, "granted", "member"),
            (2, "changed", "approver"),
            (3, "revoked", None),
            (4, "granted", "member"),
        ]
        for after in range(5):
            assert await world.store.grants_since("bot", after) == told[after:]
        for after in (-1, 5):
            assert await world.store.grants_since("bot", after) is None
        grants, _, seq = await world.store.grants_of(bot, "bot", limit=9, after=None)
        assert (seq, grants) == await world.store.grants_snapshot("bot")


async def test_a_snapshot_tells_all_a_bot_needs_to_join() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        await world.append(bot, thread_id, started("r1"), started("r2"), finished("r1"))
        await world.append(ada, thread_id, started("adas"))
        seq, grants = await world.store.grants_snapshot("bot")

        assert seq == 1
        assert [(g.target, g.role, g.joined_seq, g.last_seq, g.open_runs) for g in grants] == [
            (on_thread(thread_id), "member", 3, 7, ["r2"])
        ]
        _, adas = await world.store.grants_snapshot("ada")
        assert [g.target.type for g in adas] == ["principal", "thread"]


async def test_a_snapshot_of_a_thousand_threads_takes_three_queries(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    asked: list[str] = []
    async with open_world(path) as world:
        ada, bot, _ = await pair(world)
        async with trio.open_nursery() as nursery:
            for _ in range(1_000):
                nursery.start_soon(_join_another, world, ada, bot)
        _, grants = await world.store.grants_snapshot("bot")

    connection = sqlite3.connect(path)
    connection.set_trace_callback(asked.append)
    with closing(connection):
        assert snapshot(SqliteTx(connection), "bot")[1] == grants
    assert len(grants) == 1_001
    assert len(asked) == 3


async def _join_another(world: World, ada: Caller, bot: Caller) -> None:
    await world.grant(ada, await world.thread(ada), bot, "member")


async def test_access_is_said_to_be_lost_before_the_thread_goes_on() -> None:
    """Whoever listens re-checks roles before it sends what the revoke itself appended (3.7)."""
    async with open_world() as world:
        ada, bot, thread_id = await pair(world)
        world.changes.clear()
        await world.revoke(ada, thread_id, bot)

        assert [type(change) for change in world.changes] == [
            AccessChanged,
            GrantChanged,
            Committed,
        ]
        assert world.changes[0] == AccessChanged("bot", thread_id)
