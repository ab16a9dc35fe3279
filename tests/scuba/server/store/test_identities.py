"""Whom an issuer's subject is: bound once, by hand or at first sight, to one principal (2.2)."""

from itertools import islice
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.server.store import SYSTEM, Caller, identities
from scuba.server.store.engine import Write
from scuba.server.store.identities import Vouched, ids_for
from scuba.server.store.ids import PRINCIPAL_ID
from tests.kit.store import ON_SYSTEM, World, make, open_world, refused

ISSUER = "https://issuer.test/"
ENDS = "2099-01-01T00:00:00.000Z"


def says(subject: str = "auth0|ada", **fields: object) -> Vouched:
    return make(Vouched, **{"issuer": ISSUER, "subject": subject, "expires_at": ENDS} | fields)


async def known(world: World, vouched: Vouched, *, first_owns: bool = False) -> Caller:
    found = await world.store.identities.find(vouched, make=True, first_owns=first_owns)
    assert found is not None
    return found


async def actions(world: World) -> list[tuple[str, str, str, str | None]]:
    rows, after = await world.store.audit_rows(SYSTEM, limit=1_000, after=None)
    assert after is None
    return [(row.principal_id, row.action, row.subject, row.detail) for row in rows]


async def system_owners(world: World) -> list[str | None]:
    found, _ = await world.store.grants_on(SYSTEM, ON_SYSTEM, limit=9, after=None)
    return [grant.principal_id for grant in found]


# --- at first sight ------------------------------------------------------------------------------


async def test_a_stranger_becomes_a_user_and_stays_that_user() -> None:
    async with open_world() as world:
        vouched = says(names=("Ada.L",), display_name="Ada", email="ada@example.org")
        first = await known(world, vouched)
        again = await known(world, says(names=("somebody",), display_name="Else"))

        assert first.id == again.id == "user-ada-l"
        assert (first.principal.kind, first.token_id, first.expires_at) == ("user", None, ENDS)
        shown = await world.store.principal(first, first.id)
        assert (shown.display_name, shown.email) == ("Ada", "ada@example.org")
        assert (shown.discoverable, shown.open_to_invites) == (True, True)
        assert sorted(await actions(world)) == [
            ("system", "create", "user-ada-l", "user"),
            ("user-ada-l", "bind", "user-ada-l", f"auth0|ada of {ISSUER}"),
        ]


async def test_a_stranger_is_nobody_where_that_is_not_allowed() -> None:
    async with open_world() as world:
        assert await world.store.identities.find(says(), make=False) is None
        assert await actions(world) == []


async def test_the_same_subject_of_another_issuer_is_somebody_else() -> None:
    async with open_world() as world:
        one = await known(world, says(names=("ada",)))
        other = await known(world, says(issuer="https://other.test/", names=("ada",)))

        assert one.id == "user-ada"
        assert other.id.startswith("user-ada-")
        assert await known(world, says("auth0|Ada", names=("ada",))) not in (one, other)


async def test_an_id_that_somebody_took_before_is_left_to_him() -> None:
    async with open_world() as world:
        eve = await world.user("eve")
        taken = list(islice(ids_for(says(names=("ada",))), 3))
        for name in taken:
            await world.bot(name, eve)
        made = await known(world, says(names=("ada",)))

        assert made.id not in taken
        assert PRINCIPAL_ID.fullmatch(made.id)


async def test_many_at_once_are_one_user_each() -> None:
    """Two requests with one new JWT must not make two people."""
    async with open_world() as world:
        found: list[str] = []

        async def come(subject: str) -> None:
            found.append((await known(world, says(subject, names=("ada",)))).id)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(come, f"auth0|{number % 4}")

        assert len(set(found)) == 4
        made = [subject for _, action, subject, _ in await actions(world) if action == "create"]
        assert sorted(made) == sorted(set(found))


async def test_a_subject_that_another_server_bound_meanwhile_is_taken_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one commits between our look and our write, under an id that we do not try."""
    async with open_world() as world:
        ada = await world.user("ada")
        held_back = identities._make_user
        raced: list[str] = []

        def make_late(w: Write, vouched: Vouched) -> str:
            if not raced:
                raced.append(ada.id)
                identities._bind(w, "system", ada.id, vouched.issuer, vouched.subject)
            return held_back(w, vouched)

        monkeypatch.setattr(identities, "_make_user", make_late)
        found = await world.store.identities.find(says(names=("late",)), make=True)

        # The race was undone with the write that met it; the second look made the user.
        assert found is not None
        assert found.id == "user-late"
        assert await refused(world.store.principal(SYSTEM, "user-late-x")) == (
            404,
            "principal_not_found",
        )


# --- a first owner -------------------------------------------------------------------------------


async def test_the_first_user_may_become_system_owner_and_only_the_first() -> None:
    async with open_world() as world:
        first = await known(world, says("a", names=("ada",)), first_owns=True)
        await known(world, says("b", names=("eve",)), first_owns=True)
        await known(world, says("a"), first_owns=True)

        assert await system_owners(world) == [first.id]
        assert ("system", "grant", "user-ada", "owner on system ") in await actions(world)


async def test_nobody_becomes_system_owner_where_that_is_off_or_there_is_one() -> None:
    async with open_world() as world:
        await known(world, says("a"))
        await known(world, says("b"), first_owns=True)
        assert await system_owners(world) == []
    async with open_world() as world:
        await world.user("root")
        grant = wire.NewGrant(target=ON_SYSTEM, principal_id="root", role="owner")
        await world.store.put_grant(SYSTEM, grant)
        await known(world, says("a"), first_owns=True)
        assert await system_owners(world) == ["root"]


# --- by hand -------------------------------------------------------------------------------------


async def test_a_subject_bound_by_hand_is_that_principal_also_a_bot() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada)
        assert await world.store.identities.bind("bot", ISSUER, "machine")
        assert not await world.store.identities.bind("bot", ISSUER, "machine")

        found = await world.store.identities.find(says("machine"), make=False)

        assert found is not None
        assert (found.id, found.principal.kind) == (bot.id, "bot")
        assert [row for row in await actions(world) if row[1] == "bind"] == [
            ("system", "bind", "bot", f"machine of {ISSUER}")
        ]


async def test_binding_by_hand_takes_nothing_from_anybody() -> None:
    async with open_world() as world:
        await world.user("ada")
        await world.user("eve")
        await world.store.identities.bind("ada", ISSUER, "x")
        bind = world.store.identities.bind

        assert await refused(bind("eve", ISSUER, "x")) == (409, "principal_exists")
        for nobody in ("nobody", "system"):
            assert await refused(bind(nobody, ISSUER, "y")) == (404, "principal_not_found")
        assert await refused(bind("eve", ISSUER, "y\0")) == (400, "invalid_text")
        assert await refused(bind("eve", ISSUER, "y" * 256)) == (400, "invalid_json")
        assert (await known(world, says("x"))).id == "ada"


async def test_a_disabled_principal_is_told_so() -> None:
    async with open_world() as world:
        user = await known(world, says())
        gone = wire.PrincipalChange(disabled_at="2026-01-01T00:00:00Z")
        await world.store.change_principal(SYSTEM, user.id, gone)

        for make_it in (True, False):
            call = world.store.identities.find(says(), make=make_it)
            assert await refused(call) == (403, "principal_disabled")
        assert await refused(world.store.identities.left_s(user)) == (403, "principal_disabled")


# --- how long ------------------------------------------------------------------------------------


async def test_a_jwt_writes_until_it_ends_and_whoami_tells_when() -> None:
    async with open_world() as world:
        at = world.clock.at_ms
        ends = "2027-01-15T08:10:00.000Z"
        user = await known(world, says(expires_at=ends))
        assert await world.store.identities.left_s(user) == 600.0
        assert (await world.store.whoami(user)).token == wire.OwnToken(expires_at=ends)
        await world.thread(user)
        world.clock.pass_s(600)

        assert world.clock.at_ms == at + 600_000
        assert await refused(world.thread(user)) == (401, "unauthenticated")
        assert await refused(world.store.identities.left_s(user)) == (401, "unauthenticated")


async def test_identities_outlast_the_process(tmp_path: Path) -> None:
    async with open_world(tmp_path / "store") as world:
        first = await known(world, says(names=("ada",)))
    async with open_world(tmp_path / "store") as world:
        again = await world.store.identities.find(says(), make=False)
    assert again == first


# --- ids -----------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=60), max_size=3), st.text(max_size=20))
def test_every_id_has_its_form_and_ends_never(names: list[str], subject: str) -> None:
    vouched = says(subject.encode(errors="replace").decode(), names=tuple(names))
    found = list(islice(ids_for(vouched), 8))

    assert all(PRINCIPAL_ID.fullmatch(one) and one.startswith("user-") for one in found)
    assert len(set(found)) == 8


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("Ada Lovelace",), "user-ada-lovelace"),
        (("Åsa Öberg",), "user-asa-oberg"),
        (("李",), None),
        (("李", "li"), "user-li"),
        (("--..--",), None),
        (("../../root",), "user-root"),
        (("x" * 300,), "user-" + "x" * 40),
        ((), None),
    ],
)
def test_an_id_is_readable_when_it_can_be(names: tuple[str, ...], first: str | None) -> None:
    found = next(ids_for(says("s", names=names)))
    assert found == first if first else len(found) == len("user-") + 20
