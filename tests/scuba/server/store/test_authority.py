"""Who may do what on a thread: the matrix of 3.2, row by row, and what is not seen (3.3, 3.6)."""

from collections.abc import Awaitable, Callable

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller
from tests.kit.store import (
    ON_SYSTEM,
    World,
    answer,
    decide,
    event,
    finished,
    interrupt,
    on_thread,
    open_world,
    part,
    problem,
    refused,
    started,
    text,
    tool_call,
)

OWNER, MEMBER, APPROVER, RUNNER, COMMENTER = (
    "owner",
    "member",
    "approver",
    "tool_runner",
    "commenter",
)
ROLES: tuple[Role, ...] = ("owner", "member", "approver", "tool_runner", "commenter")
MATRIX = {
    "read": {OWNER, MEMBER, APPROVER, RUNNER, COMMENTER},
    "say": {OWNER, MEMBER, APPROVER, RUNNER, COMMENTER},
    "run": {OWNER, MEMBER},
    "bare tool part": {OWNER, MEMBER},
    "vendor event": {OWNER, MEMBER},
    "interrupt": {OWNER, MEMBER, APPROVER},
    "approve": {OWNER, APPROVER},
    "answer": {OWNER, RUNNER},
    "branch": {OWNER, MEMBER},
    "invite": {OWNER, MEMBER},
    "grant": {OWNER},
    "retitle": {OWNER},
    "revoke another": {OWNER},
}


async def attempt(world: World, who: Caller, thread_id: str, action: str) -> tuple[int, str] | None:
    """Do it; return how it was refused, or None."""
    store = world.store
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "read": lambda: world.log(who, thread_id),
        "say": lambda: world.append(who, thread_id, text("hi")),
        "run": lambda: world.append(
            who,
            thread_id,
            started(f"run_{who.id}"),
            text("x", f"run_{who.id}"),
            finished(f"run_{who.id}"),
        ),
        "bare tool part": lambda: world.append(
            who, thread_id, part({"type": "reasoning-start", "id": "t"})
        ),
        "vendor event": lambda: world.append(who, thread_id, event("x.acme.mark")),
        "interrupt": lambda: world.append(who, thread_id, interrupt("run_bot")),
        "approve": lambda: world.append(who, thread_id, decide("run_bot", "call_1")),
        "answer": lambda: world.append(who, thread_id, answer("run_bot", "call_1")),
        "branch": lambda: store.create_subthread(who, thread_id, wire.NewSubthread()),
        "invite": lambda: store.invite(who, thread_id, wire.NewInvite(principal_id="guest")),
        "grant": lambda: world.grant(who, thread_id, "guest", "commenter"),
        "retitle": lambda: store.change_thread(who, thread_id, wire.ThreadChange(title=who.id)),
        "revoke another": lambda: store.delete_grant(who, on_thread(thread_id), "nobody"),
    }
    try:
        await calls[action]()
    except Problem as error:
        return error.status, error.code
    return None


async def with_run(world: World) -> tuple[Caller, Caller, str]:
    """Return an owner, a member bot with an open run and call, and their thread."""
    ada = await world.user("ada")
    bot = await world.bot("bot", ada)
    await world.user("guest")
    thread_id = await world.thread(ada)
    await world.grant(ada, thread_id, bot, "member")
    await world.append(bot, thread_id, started("run_bot"), tool_call("call_1", "run_bot"))
    return ada, bot, thread_id


async def test_each_role_may_what_the_matrix_says_and_nothing_else() -> None:
    async with open_world() as world:
        ada, _, thread_id = await with_run(world)
        for role in ROLES:
            who = await world.user(f"user_{role}")
            await world.grant(ada, thread_id, who, role)
            for action, allowed in MATRIX.items():
                got = await attempt(world, who, thread_id, action)

                assert got == (None if role in allowed else (403, "forbidden")), (role, action)


async def test_a_system_owner_may_everything_and_counts_as_owner() -> None:
    async with open_world() as world:
        _, _, thread_id = await with_run(world)
        root = await world.user("root")
        body = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await world.store.put_grant(SYSTEM, body)
        for action in MATRIX:
            assert await attempt(world, root, thread_id, action) is None, action

        decisions = [e for e in await world.log(root, thread_id) if e.type == "tool_call_approval"]
        assert [e.role for e in decisions] == ["owner"]


async def test_a_bot_owner_neither_decides_nor_answers_nor_makes_more_than_members() -> None:
    """It gets `owner` with each subthread it opens; that is no authority over others."""
    async with open_world() as world:
        ada, _bot, thread_id = await with_run(world)
        other = await world.bot("other", ada)
        await world.grant(ada, thread_id, other, "owner")

        assert await attempt(world, other, thread_id, "approve") == (403, "forbidden")
        assert await attempt(world, other, thread_id, "answer") == (403, "forbidden")
        assert await attempt(world, other, thread_id, "grant") == (403, "forbidden")
        assert (await world.grant(other, thread_id, "guest", "member")).role == "member"
        await world.grant(ada, thread_id, other, "approver")
        assert await attempt(world, other, thread_id, "approve") is None


async def test_nobody_decides_about_a_call_of_its_own_run() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await with_run(world)
        await world.append(ada, thread_id, started("mine"), tool_call("c", "mine"))
        await world.grant(ada, thread_id, bot, "approver")

        assert await refused(world.append(ada, thread_id, decide("mine", "c"))) == (
            403,
            "self_approval",
        )
        assert await refused(world.append(bot, thread_id, decide("run_bot", "call_1"))) == (
            403,
            "self_approval",
        )


async def test_members_invite_unless_the_thread_says_no() -> None:
    async with open_world() as world:
        ada, _, thread_id = await with_run(world)
        eve = await world.user("eve")
        await world.grant(ada, thread_id, eve, "member")
        await world.store.change_thread(ada, thread_id, wire.ThreadChange(members_can_invite=False))

        assert await attempt(world, eve, thread_id, "invite") == (403, "forbidden")
        assert await attempt(world, ada, thread_id, "invite") is None


async def test_an_inherited_role_reads_and_acts_but_is_no_participation() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await with_run(world)
        _, child = await world.store.create_subthread(bot, thread_id, wire.NewSubthread())
        closed = wire.NewSubthread(access="direct")
        _, private = await world.store.create_subthread(bot, thread_id, closed)

        assert (await world.store.role_on(ada, child.thread_id))[0] == "owner"
        assert await attempt(world, ada, child.thread_id, "say") is None
        assert await world.store.role_on(ada, private.thread_id) == (None, 0)
        view = await world.store.thread(ada, child.thread_id)
        assert [p.principal_id for p in view.participants] == ["bot"]
        _, grants = await world.store.grants_snapshot("ada")
        assert child.thread_id not in {grant.target.thread_id for grant in grants}


async def test_a_direct_role_counts_before_an_inherited_one() -> None:
    async with open_world() as world:
        ada, _bot, thread_id = await with_run(world)
        eve = await world.user("eve")
        await world.grant(ada, thread_id, eve, "member")
        _, child = await world.store.create_subthread(ada, thread_id, wire.NewSubthread())
        await world.grant(ada, child.thread_id, eve, "commenter")

        assert await attempt(world, eve, child.thread_id, "run") == (403, "forbidden")


async def test_turning_inheritance_on_and_off_moves_everything_below() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await with_run(world)
        _, child = await world.store.create_subthread(bot, thread_id, wire.NewSubthread())
        _, grandchild = await world.store.create_subthread(
            bot, child.thread_id, wire.NewSubthread()
        )
        for access, role in (("direct", None), ("inherit", "owner")):
            change = wire.ThreadChange(access=access)  # type: ignore[arg-type]  # both are Access
            await world.store.change_thread(SYSTEM, child.thread_id, change)

            assert (await world.store.role_on(ada, child.thread_id))[0] == role
            assert (await world.store.role_on(ada, grandchild.thread_id))[0] == role


async def test_an_unseen_thread_and_an_unknown_one_answer_word_for_word_alike() -> None:
    async with open_world() as world:
        _ada, _, thread_id = await with_run(world)
        eve = await world.user("eve")
        unknown = "thr_unknown"
        store = world.store

        async def told(id_: str) -> list[tuple[int, str, str]]:
            errors = [
                await problem(store.thread(eve, id_)),
                await problem(world.log(eve, id_)),
                await problem(store.event(eve, id_, 1)),
                await problem(store.run(eve, id_, "run_bot")),
                await problem(world.append(eve, id_, text("x"))),
                await problem(world.append(eve, id_, text("x", key="k"), log_epoch="e-other")),
                await problem(store.create_subthread(eve, id_, wire.NewSubthread(key="k"))),
                await problem(store.change_thread(eve, id_, wire.ThreadChange(title="x"))),
                await problem(store.invite(eve, id_, wire.NewInvite(principal_id="guest"))),
                await problem(world.grant(eve, id_, "guest", "member")),
                await problem(store.delete_grant(eve, on_thread(id_), "ada")),
                await problem(store.grants_on(eve, on_thread(id_), limit=9, after=None)),
            ]
            return [(error.status, error.code, error.detail) for error in errors]

        assert await told(thread_id) == await told(unknown)
        assert await store.role_on(eve, thread_id) == await store.role_on(eve, unknown)
        for id_ in (thread_id, unknown):
            await store.delete_grant(eve, on_thread(id_), "eve")  # leaving tells nothing


async def test_after_a_revoke_is_answered_no_append_lands() -> None:
    async with open_world() as world:
        ada, bot, thread_id = await with_run(world)
        await world.revoke(ada, thread_id, bot)

        assert await refused(world.append(bot, thread_id, text("late", "run_bot"))) == (
            404,
            "thread_not_found",
        )
