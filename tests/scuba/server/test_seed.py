"""A seed in a store: made once, left alone ever after, and nothing of a bad one."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scuba import wire
from scuba.errors import ConfigError
from scuba.server.seed import Planted, plant
from scuba.server.seeds import Seed
from scuba.server.store import SYSTEM
from tests.kit.store import ON_SYSTEM, World, on_principal, on_thread, open_world, refused, said

pytestmark = pytest.mark.parametrize("engine", ["sqlite", "postgres"], indirect=True)

CONFIG = Path("bubble.config.json")
USER_TOKEN = "bubble_user_" + "u" * 43
BOT_TOKEN = "bubble_agent_" + "b" * 43
SUB = "thr_a.sub-aaaaa-bbb"


def grant(who: str, role: str, **target: str) -> dict[str, Any]:
    return {"target": target, "principalId": who, "role": role}


def part(who: str, run: str, delta: str) -> dict[str, Any]:
    chunk = {"type": "text-delta", "id": "t", "delta": delta}
    return {"type": "message_part", "principalId": who, "runId": run, "payload": {"chunk": chunk}}


def frame(who: str, kind: str, run: str, **payload: str) -> dict[str, Any]:
    return {"type": kind, "principalId": who, "runId": run, "payload": payload}


SEED: dict[str, Any] = {
    "principals": [
        {
            "principalId": "bot-r",
            "kind": "bot",
            "displayName": "Research",
            "ownerPrincipalIds": ["user-ada"],
            "initialToken": BOT_TOKEN,
            "createdAt": "2026-01-01T00:00:00Z",
        },
        {
            "principalId": "user-ada",
            "kind": "user",
            "email": "ada@example.com",
            "initialToken": USER_TOKEN,
            "identities": [{"issuer": "https://issuer.example.com", "subject": "ada"}],
        },
        {"principalId": "user-gone", "kind": "user", "disabledAt": "2026-02-01T00:00:00Z"},
    ],
    "authz": [
        grant("user-ada", "owner", type="system"),
        grant("user-ada", "owner", type="thread", threadId="thr_a"),
        grant("bot-r", "member", type="thread", threadId="thr_a"),
        grant("user-gone", "commenter", type="thread", threadId="thr_a"),
    ],
    "threads": [
        {"threadId": SUB, "parentThreadId": "thr_a", "title": "Below"},
        {
            "threadId": "thr_a",
            "title": "A",
            "events": [
                part("user-ada", "m1", "one"),
                part("user-gone", "m2", "two"),
                part("user-gone", "m2", "three"),
                frame("bot-r", "run_started", "r1"),
                part("bot-r", "r1", "four"),
                frame("user-ada", "run_interrupt_requested", "r1"),
                frame("bot-r", "run_finished", "r1", status="interrupted"),
            ],
        },
    ],
}


async def sow(world: World, seed: dict[str, Any]) -> Planted:
    return await plant(world.store, msgspec.convert(seed, Seed), wire.Limits(), CONFIG)


async def wrong(world: World, seed: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        await sow(world, seed)
    return caught.value.what


async def test_everything_it_names_is_there(engine: str) -> None:
    async with open_world() as world:
        planted = await sow(world, SEED)

        assert planted == Planted(principals=3, grants=5, threads=2, events=7)
        ada, bot = await world.store.identify(USER_TOKEN), await world.store.identify(BOT_TOKEN)
        assert ada is not None
        assert bot is not None
        shown = await world.store.principal(ada, "bot-r")
        assert shown.owner_principal_ids == ["user-ada"]
        assert shown.created_at == "2026-01-01T00:00:00.000Z"
        assert shown.display_name == "Research"
        gone = await world.store.principal(ada, "user-gone")
        assert gone.disabled_at == "2026-02-01T00:00:00.000Z"
        (token,) = await world.store.tokens(ada, "bot-r")
        assert (token.label, token.tail) == ("seed", BOT_TOKEN[-6:])
        below = await world.store.thread(bot, SUB)
        assert (below.thread.parent_thread_id, below.thread.role) == ("thr_a", "member")
        assert await world.store.grants_on(ada, ON_SYSTEM, limit=10, after=None)


async def test_what_was_said_is_in_order_with_its_authors(engine: str) -> None:
    async with open_world() as world:
        await sow(world, SEED)

        log = await world.log(SYSTEM, "thr_a")
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        heard = [event for event in log if event.type != "participant_joined"]
        assert [(event.principal_id, event.type) for event in heard] == [
            ("system", "thread_created"),
            ("user-ada", "message_part"),
            ("user-gone", "message_part"),
            ("user-gone", "message_part"),
            ("bot-r", "run_started"),
            ("bot-r", "message_part"),
            ("user-ada", "run_interrupt_requested"),
            ("bot-r", "run_finished"),
            ("system", "participant_left"),
        ]
        assert [event.bare_left for event in heard[1:4]] == [0, 1, 0]
        assert heard[6].role == "owner"
        assert (await world.store.run(SYSTEM, "thr_a", "r1")).status == "interrupted"


async def test_a_second_start_adds_nothing(engine: str) -> None:
    async with open_world() as world:
        await sow(world, SEED)
        log, changes = await world.log(SYSTEM, "thr_a"), len(world.changes)

        assert await sow(world, SEED) == Planted()
        assert await world.log(SYSTEM, "thr_a") == log
        assert len(world.changes) == changes


async def test_what_people_did_since_is_left_alone(engine: str) -> None:
    """A revoked grant or token does not come back, a changed role or name stays."""
    async with open_world() as world:
        await sow(world, SEED)
        ada = await world.store.identify(USER_TOKEN)
        assert ada is not None
        await world.grant(ada, "thr_a", "bot-r", "commenter")
        await world.store.delete_grant(ada, on_principal("bot-r"), "user-ada")
        await world.store.delete_grant(ada, on_thread("thr_a"), "user-gone")
        await world.store.revoke_tokens(ada, "bot-r", None)
        named = wire.PrincipalChange(display_name="Ada")
        await world.store.change_principal(ada, "user-ada", named)

        assert await sow(world, SEED) == Planted()
        view = await world.store.thread(ada, "thr_a")
        assert {one.principal_id: one.role for one in view.participants} == {
            "user-ada": "owner",
            "bot-r": "commenter",
        }
        assert await world.store.identify(BOT_TOKEN) is None
        bot = await world.store.principal(ada, "bot-r")
        assert bot.owner_principal_ids == []
        assert (await world.store.principal(ada, "user-ada")).display_name == "Ada"


async def test_a_seed_that_has_grown_adds_what_is_new(engine: str) -> None:
    async with open_world() as world:
        await sow(world, SEED)
        grown = {
            "principals": [*SEED["principals"], {"principalId": "user-bo", "kind": "user"}],
            "authz": [
                *SEED["authz"],
                grant("user-bo", "member", type="thread", threadId="thr_a"),
                grant("user-bo", "owner", type="thread", threadId="thr_b"),
            ],
            "threads": [*SEED["threads"], {"threadId": "thr_b"}],
        }

        assert await sow(world, grown) == Planted(principals=1, grants=2, threads=1)
        assert await sow(world, {"authz": grown["authz"]}) == Planted()


async def test_nothing_of_a_bad_seed_is_written_and_all_of_it_is_told(engine: str) -> None:
    async with open_world() as world:
        said = await wrong(
            world,
            {
                "principals": [{**SEED["principals"][0], "ownerPrincipalIds": ["user-x"]}],
                "authz": [
                    grant("user-y", "owner", type="thread", threadId="thr_a"),
                    grant("bot-r", "member", type="thread", threadId="thr_c"),
                    grant("bot-r", "owner", type="principal", principalId="user-z"),
                ],
                "threads": [
                    {"threadId": "thr_a", "events": [part("user-w", "m", "x")]},
                    {"threadId": "thr_d.sub-aaaaa-bbb", "parentThreadId": "thr_d"},
                ],
            },
        )

        assert said.startswith("the configuration bubble.config.json has 6 mistakes:")
        for place, name in (
            ("principals[0].ownerPrincipalIds[0]", "principal user-x"),
            ("authz[0].principalId", "principal user-y"),
            ("authz[1].target.threadId", "thread thr_c"),
            ("authz[2].target.principalId", "principal user-z"),
            ("threads[0].events[0].principalId", "principal user-w"),
            ("threads[1].parentThreadId", "thread thr_d"),
        ):
            assert f"seed.{place}: there is no {name}" in said
        assert not world.changes
        assert await refused(world.store.principal(SYSTEM, "bot-r")) == (404, "principal_not_found")


@pytest.mark.parametrize(
    ("events", "place", "words"),
    [
        ([part("user-bo", "m", "x")], 0, "user-bo has no role on this thread"),
        (
            [part("bot-r", "m", "x"), frame("bot-r", "run_finished", "m", status="failed")],
            1,
            "bare",
        ),
        ([part("bot-r", "m", "x"), part("user-ada", "m", "y")], 1, "another principal's"),
        (
            [frame("bot-r", "run_started", "r"), frame("user-gone", "run_started", "s")],
            1,
            "may not run",
        ),
    ],
)
async def test_a_log_that_could_not_have_been_is_refused(
    engine: str, events: list[dict[str, Any]], place: int, words: str
) -> None:
    people = [*SEED["principals"], {"principalId": "user-bo", "kind": "user"}]
    async with open_world() as world:
        said = await wrong(
            world,
            {
                "principals": people,
                "authz": SEED["authz"],
                "threads": [{"threadId": "thr_a", "events": events}],
            },
        )

        assert f"seed.threads[0].events[{place}]: " in said
        assert words in said
        assert not world.changes
        assert await world.store.identify(USER_TOKEN) is None


async def test_a_token_that_is_somebody_s_is_refused(engine: str) -> None:
    async with open_world() as world:
        await world.user("user-eve")
        seed = {"principals": [{**SEED["principals"][1], "initialToken": world.tokens["user-eve"]}]}

        assert "is already somebody's" in await wrong(world, seed)
        assert world.tokens["user-eve"] not in await wrong(world, seed)


async def test_the_text_of_a_seed_is_what_is_read(engine: str) -> None:
    async with open_world() as world:
        await sow(world, SEED)

        log = await world.log(SYSTEM, "thr_a")
        parts = [said(event) for event in log if event.run_id == "m2"]
        assert [one["chunk"]["delta"] for one in parts] == ["two", "three"]  # type: ignore[index]  # objects
