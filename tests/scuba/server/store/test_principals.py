"""Principals and their tokens: made, seen, found, changed, ended (2)."""

import pytest
import trio
import trio.lowlevel

from scuba import wire
from scuba.server.store import SYSTEM, PrincipalDisabled, TokenEnded
from tests.kit.store import ON_SYSTEM, World, on_thread, open_world, problem, refused, text

# --- making ------------------------------------------------------------------------------------


async def test_a_repeat_by_key_withholds_the_token() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        body = wire.NewPrincipal(principal_id="bot", kind="bot", key="setup-1")
        new, made = await world.store.create_principal(ada, body)
        again, repeat = await world.store.create_principal(ada, body)

        assert (new, again) == (True, False)
        assert made.token is not None
        assert (made.token.token or "").startswith("bubble_agent_")
        assert (repeat.token, repeat.token_withheld) == (None, True)
        assert repeat.principal == made.principal
        assert made.principal.owner_principal_ids == ["ada"]
        other = wire.NewPrincipal(principal_id="bot-2", kind="bot", key="setup-1")
        assert await refused(world.store.create_principal(ada, other)) == (409, "key_conflict")
        taken = wire.NewPrincipal(principal_id="bot", kind="bot", key="setup-2")
        assert await refused(world.store.create_principal(ada, taken)) == (409, "principal_exists")


async def test_who_may_make_whom() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada)
        root = await world.user("root")
        grant = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await world.store.put_grant(SYSTEM, grant)
        forbidden = (403, "forbidden")
        for caller, kind, refusal in (
            (ada, "user", forbidden),
            (ada, "system", forbidden),
            (bot, "bot", forbidden),
            (root, "user", None),
            (root, "system", None),
            (root, "bot", None),
        ):
            name = f"{caller.id}-{kind}"
            body = wire.NewPrincipal(principal_id=name, kind=kind)  # type: ignore[arg-type]  # all are kinds
            call = world.store.create_principal(caller, body)
            if refusal is None:
                assert (await call)[0]
            else:
                assert await refused(call) == refusal, name


async def test_defaults_are_closed_for_bots_and_open_for_users() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        await world.bot("bot", ada)
        got = [await world.store.principal(ada, name) for name in ("ada", "bot")]

        assert [(p.discoverable, p.open_to_invites) for p in got] == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"principal_id": ""}, "invalid_json"),
        ({"principal_id": "-x"}, "invalid_json"),
        ({"principal_id": "a b"}, "invalid_json"),
        ({"principal_id": "x" * 129}, "invalid_json"),
        ({"display_name": "x" * 101}, "invalid_json"),
        ({"display_name": "\ud800"}, "invalid_text"),
        ({"key": "ü"}, "invalid_json"),
    ],
    ids=str,
)
async def test_a_bad_principal_is_refused(fields: dict[str, str], code: str) -> None:
    async with open_world() as world:
        body = wire.NewPrincipal(**({"principal_id": "bot", "kind": "bot"} | fields))  # type: ignore[arg-type]  # a mix
        assert await refused(world.store.create_principal(SYSTEM, body)) == (400, code)


# --- seeing and finding ------------------------------------------------------------------------


async def test_one_sees_oneself_ones_own_the_discoverable_and_ones_company() -> None:
    async with open_world() as world:
        ada = await world.user("ada", email="ada@example.org")
        eve = await world.user("eve", discoverable=False)
        bot = await world.bot("bot", ada)
        errors = [await problem(world.store.principal(eve, name)) for name in ("bot", "nobody")]
        assert [(e.status, e.code, e.detail) for e in errors] == [
            (404, "principal_not_found", "no such principal")
        ] * 2
        assert (await world.store.principal(eve, "ada")).email is None
        assert (await world.store.principal(ada, "ada")).email == "ada@example.org"
        assert (await world.store.principal(ada, "bot")).principal_id == "bot"
        assert await refused(world.store.principal(ada, "eve")) == (404, "principal_not_found")

        thread_id = await world.thread(ada)
        await world.grant(ada, thread_id, bot, "member")
        await world.grant(SYSTEM, thread_id, eve, "commenter")
        assert (await world.store.principal(eve, "bot")).principal_id == "bot"
        found, _ = await world.store.find_principals(eve, q="bot", kind=None, limit=9, after=None)
        assert found == []


async def test_search_folds_case_and_takes_no_pattern() -> None:
    async with open_world() as world:
        ada = await world.user("ada", display_name="Ada STRASSE 100%")
        await world.user("eve", display_name="Eve 1000")
        await world.bot("bot-ada", ada)

        async def found(q: str, kind: str | None = None) -> list[str]:
            page, _ = await world.store.find_principals(ada, q=q, kind=kind, limit=9, after=None)
            return [principal.principal_id for principal in page]

        assert await found("straße") == ["ada"]
        assert await found("0%") == ["ada"]
        assert await found("_") == []
        assert await found("ADA") == ["ada", "bot-ada"]
        assert await found("ada", "bot") == ["bot-ada"]
        assert await found("") == ["ada", "bot-ada", "eve"]
        for bad in ("\0", "\ud800", "x" * 129):
            assert await refused(found(bad)) == (400, "invalid_query")


async def test_search_goes_on_and_leaves_out_the_disabled() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        for number in range(4):
            await world.user(f"u{number}")
        disabled = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")
        await world.store.change_principal(SYSTEM, "u1", disabled)
        first, after = await world.store.find_principals(ada, q="", kind=None, limit=2, after=None)
        rest, end = await world.store.find_principals(ada, q="", kind=None, limit=2, after=after)

        assert [p.principal_id for p in [*first, *rest]] == ["ada", "u0", "u2", "u3"]
        assert end is None
        everybody, _ = await world.store.find_principals(
            SYSTEM, q="u1", kind=None, limit=2, after=None
        )
        assert [p.disabled_at for p in everybody] == ["2026-11-30T12:00:00.000Z"]


# --- changing ----------------------------------------------------------------------------------


async def test_who_may_change_what() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada)
        eve = await world.user("eve")
        change = world.store.change_principal
        named = wire.PrincipalChange(display_name="New")
        found = wire.PrincipalChange(discoverable=True)
        disabled = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z")

        assert (await change(bot, "bot", named)).display_name == "New"
        assert await refused(change(bot, "bot", found)) == (403, "forbidden")
        assert await refused(change(eve, "bot", named)) == (404, "principal_not_found")
        assert (await change(ada, "bot", found)).discoverable is True
        assert await refused(change(eve, "bot", named)) == (403, "forbidden")
        assert (
            await change(ada, "ada", wire.PrincipalChange(discoverable=False))
        ).discoverable is False
        assert await refused(change(ada, "ada", disabled)) == (403, "forbidden")
        assert await refused(change(SYSTEM, "system", named)) == (403, "forbidden")
        assert (await change(ada, "bot", disabled)).disabled_at == "2026-11-30T12:00:00.000Z"
        assert PrincipalDisabled("bot") in world.changes
        cleared = await change(ada, "bot", wire.PrincipalChange(display_name=None))
        assert (cleared.display_name, cleared.disabled_at) == (None, "2026-11-30T12:00:00.000Z")


# --- tokens ------------------------------------------------------------------------------------


async def mint(world: World, **fields: object) -> wire.Token:
    body = wire.NewToken(**fields)  # type: ignore[arg-type]  # a mix
    return await world.store.mint_token(SYSTEM, "bot", body)


async def with_bot(world: World) -> None:
    await world.bot("bot", await world.user("ada"))


async def lives(world: World, token: wire.Token) -> bool:
    return await world.store.identify(token.token or "") is not None


@pytest.mark.parametrize(
    "token",
    ["", "x", "bubble_agent_", "bubble_agent_" + "A" * 43, "bubble_user_" + "é" * 43, "\ud800"],
)
async def test_whatever_is_wrong_with_a_token_is_nobody(token: str) -> None:
    async with open_world() as world:
        await with_bot(world)
        assert await world.store.identify(token) is None


async def test_a_token_ends_when_it_expires_and_when_it_is_revoked() -> None:
    async with open_world() as world:
        await with_bot(world)
        soon = await mint(world, label="soon", expires_at="2027-01-15T08:01:00+00:00")
        other = await mint(world)
        assert await lives(world, soon)
        world.clock.pass_s(60)
        assert not await lives(world, soon)
        await world.store.revoke_tokens(SYSTEM, "bot", other.token_id)
        await world.store.revoke_tokens(SYSTEM, "bot", other.token_id)
        assert not await lives(world, other)

        assert world.told(TokenEnded) == [TokenEnded(other.token_id)]
        unknown = world.store.revoke_tokens(SYSTEM, "bot", "tok_unknown")
        assert await refused(unknown) == (404, "not_found")


async def test_rotation_gives_the_old_ones_time_and_then_ends_them() -> None:
    async with open_world() as world:
        await with_bot(world)
        old = wire.Token(token_id="", token=world.tokens["bot"])
        new = await mint(world, revoke_others=True, grace_seconds=30)
        assert len(world.told(TokenEnded)) == 1
        assert await lives(world, old)
        world.clock.pass_s(30)
        assert not await lives(world, old)
        assert await lives(world, new)

        await mint(world, revoke_others=True)
        assert not await lives(world, new)


async def test_at_most_ten_live_tokens() -> None:
    async with open_world() as world:
        await with_bot(world)
        for _ in range(9):
            await mint(world)
        assert await refused(mint(world)) == (409, "limit_reached")
        await mint(world, revoke_others=True)
        await mint(world)


async def test_the_list_shows_no_token_and_when_it_was_used() -> None:
    async with open_world() as world:
        await with_bot(world)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(5):
            while (listed := await world.store.tokens(SYSTEM, "bot"))[0].last_used_at is None:
                await trio.lowlevel.checkpoint()

        assert [token.token for token in listed] == [None]
        assert listed[0].tail == world.tokens["bot"][-6:]


async def test_who_deals_with_tokens() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada, discoverable=True)
        eve = await world.user("eve")
        forbidden = (403, "forbidden")
        for caller, name, refusal in (
            (ada, "bot", None),
            (ada, "ada", None),
            (bot, "bot", forbidden),
            (eve, "bot", forbidden),
            (eve, "ada", forbidden),
            (eve, "nobody", (404, "principal_not_found")),
            (SYSTEM, "system", forbidden),
        ):
            calls = [
                world.store.mint_token(caller, name, wire.NewToken()),
                world.store.tokens(caller, name),
            ]
            for call in calls:
                if refusal is None:
                    await call
                else:
                    assert await refused(call) == refusal, (caller.id, name)


@pytest.mark.parametrize(
    "fields",
    [
        {"expires_at": "tomorrow"},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"grace_seconds": -1},
        {"grace_seconds": 86_401},
        {"label": "x" * 101},
    ],
    ids=str,
)
async def test_a_bad_token_request_is_refused(fields: dict[str, object]) -> None:
    async with open_world() as world:
        await with_bot(world)
        assert await refused(mint(world, **fields)) == (400, "invalid_json")


async def test_an_ended_token_writes_nothing_more() -> None:
    """Its owner was identified before; the write looks again (3.7)."""
    async with open_world() as world:
        ada = await world.user("ada")
        thread_id = await world.thread(ada)
        await world.store.revoke_tokens(SYSTEM, "ada", None)

        append = world.append(ada, thread_id, text("late"))
        assert await refused(append) == (401, "unauthenticated")


async def test_whoami_tells_who_and_the_newest_grants() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        thread_id = ""
        for number in range(201):
            world.clock.pass_s(1)
            thread_id = await world.thread(ada, title=str(number))
        me = await world.store.whoami(ada)

        assert me.principal.principal_id == "ada"
        assert me.token is not None
        assert me.token.token_id == ada.token_id
        assert (len(me.grants), me.grants_truncated) == (200, True)
        assert me.grants[0] == wire.Grant(target=on_thread(thread_id), role="owner")
