"""Threads: one for each key for ever, listed newest first, changed by owners (4)."""

import hashlib
import re

import pytest

from scuba import wire
from scuba.server.store import SYSTEM, AccessChanged
from scuba.server.store.ids import CROCKFORD, THREAD_ID
from tests.kit.store import open_world, refused, said, text


async def test_a_new_thread_begins_with_its_making_and_its_owner() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        new, thread = await world.store.create_thread(ada, wire.NewThread(title="Release"))

        assert new
        assert (thread.role, thread.access, thread.first_seq, thread.last_seq) == (
            "owner",
            "direct",
            1,
            2,
        )
        log = [(e.seq, e.type, said(e)) for e in await world.log(ada, thread.thread_id)]
        assert log == [
            (1, "thread_created", {}),
            (2, "participant_joined", {"principalId": "ada", "role": "owner", "by": "ada"}),
        ]


async def test_the_same_key_is_the_same_thread_whatever_else_is_asked() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        eve = await world.user("eve")
        _, first = await world.store.create_thread(ada, wire.NewThread(title="a", key="k"))
        new, again = await world.store.create_thread(ada, wire.NewThread(title="b", key="k"))
        other, evas = await world.store.create_thread(eve, wire.NewThread(key="k"))

        assert (new, again) == (False, first)
        assert other
        assert evas.thread_id != first.thread_id


async def test_a_maker_that_has_left_gets_the_same_thread_and_no_news_of_it() -> None:
    """Chapters 3.6, 4.2."""
    async with open_world() as world:
        ada, bob = await world.user("ada"), await world.user("bob")
        _, first = await world.store.create_thread(ada, wire.NewThread(title="a", key="k"))
        await world.grant(ada, first.thread_id, bob, "owner")
        target = wire.Target(type="thread", thread_id=first.thread_id)
        await world.store.delete_grant(bob, target, "ada")
        await world.store.change_thread(bob, first.thread_id, wire.ThreadChange(title="secret"))
        new, again = await world.store.create_thread(ada, wire.NewThread(key="k"))

        assert (new, again.thread_id, again.created_by) == (False, first.thread_id, "ada")
        assert (again.title, again.last_seq, again.last_event_at) == (None, 1, None)


async def test_a_subthreads_id_is_made_of_its_key() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        parent = await world.thread(ada)
        origin = wire.Origin(run_id="r", tool_call_id="toolu_1")
        body = wire.NewSubthread(key=f"{parent}/r/toolu_1", title="Look", origin=origin)
        new, child = await world.store.create_subthread(ada, parent, body)
        again, same = await world.store.create_subthread(ada, parent, body)

        bits = hashlib.sha256(f"ada{parent}{body.key}".encode()).digest()
        number = int.from_bytes(bits[:5])
        letters = "".join(CROCKFORD[number >> 35 - 5 * i & 31] for i in range(8))
        assert child.thread_id == f"{parent}.sub-{letters[:5]}-{letters[5:]}"
        assert (new, again, same) == (True, False, child)
        assert (child.parent_thread_id, child.access, child.role) == (parent, "inherit", "owner")
        made = said((await world.log(ada, child.thread_id))[0])
        assert made == {
            "parentThreadId": parent,
            "origin": {"runId": "r", "toolCallId": "toolu_1"},
        }


async def test_keyless_subthreads_are_new_each_time_and_well_formed() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        parent = await world.thread(ada)
        ids = {
            (await world.store.create_subthread(ada, parent, wire.NewSubthread()))[1].thread_id
            for _ in range(20)
        }

        assert len(ids) == 20
        assert all(THREAD_ID.fullmatch(id_) for id_ in ids)
        assert all(re.fullmatch(r".*\.sub-[a-z0-9]{5}-[a-z0-9]{3}", id_) for id_ in ids)


async def test_depth_is_limited() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        at = await world.thread(ada)
        for _ in range(8):
            at = (await world.store.create_subthread(ada, at, wire.NewSubthread()))[1].thread_id

        assert THREAD_ID.fullmatch(at)
        deeper = world.store.create_subthread(ada, at, wire.NewSubthread())
        assert await refused(deeper) == (409, "limit_reached")


async def test_the_list_is_newest_activity_first_and_goes_on() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        ids: list[str] = []
        for number in range(5):
            world.clock.pass_s(number % 2)  # some share their moment
            ids.append(await world.thread(ada))
        world.clock.pass_s(1)
        await world.append(ada, ids[0], text("news"))
        seen: list[str] = []
        after: str | None = None
        while True:
            page, after = await world.store.threads(
                ada, parent=None, archived=None, limit=2, after=after
            )
            seen += [thread.thread_id for thread in page]
            if after is None:
                break

        assert seen[0] == ids[0]
        assert sorted(seen) == sorted(ids)
        assert len(page) == 1


async def test_the_list_is_of_participations_by_parent_and_by_archive() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        bot = await world.bot("bot", ada)
        parent = await world.thread(ada)
        await world.grant(ada, parent, bot, "member")
        _, child = await world.store.create_subthread(bot, parent, wire.NewSubthread())
        await world.store.change_thread(
            bot, child.thread_id, wire.ThreadChange(archived_at="2026-11-30T12:00:00Z")
        )

        async def listed(**asked: object) -> list[tuple[str, str | None]]:
            query = {"parent": None, "archived": None, "limit": 9, "after": None} | asked
            page, _ = await world.store.threads(bot, **query)  # type: ignore[arg-type]  # a mix
            return sorted((thread.thread_id, thread.role) for thread in page)

        both = sorted([(parent, "member"), (child.thread_id, "owner")])
        assert await listed() == both
        assert await listed(parent=parent) == [(child.thread_id, "owner")]
        assert await listed(archived=False) == [(parent, "member")]
        assert await listed(archived=True) == [(child.thread_id, "owner")]
        mine, _ = await world.store.threads(ada, parent=parent, archived=None, limit=9, after=None)
        assert mine == []


async def test_a_change_says_what_became_different_and_nothing_else() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        thread_id = await world.thread(ada, title="old")
        change = wire.ThreadChange(title="new", members_can_invite=True)
        thread = await world.store.change_thread(ada, thread_id, change)
        assert (thread.title, thread.last_seq) == ("new", 3)

        again = await world.store.change_thread(ada, thread_id, change)
        assert again.last_seq == 3
        await world.store.change_thread(ada, thread_id, wire.ThreadChange(title=None))
        told = [said(e) for e in (await world.log(ada, thread_id))[2:]]
        assert told == [{"title": "new"}, {"title": None}]


async def test_closing_a_subthread_tells_whoever_serves_it() -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        parent = await world.thread(ada)
        _, child = await world.store.create_subthread(ada, parent, wire.NewSubthread())
        await world.store.change_thread(ada, child.thread_id, wire.ThreadChange(access="direct"))

        assert AccessChanged(None, child.thread_id) in world.changes


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (wire.ThreadChange(title="x" * 201), "invalid_json"),
        (wire.ThreadChange(title="a\0"), "invalid_text"),
        (wire.ThreadChange(title="\ud800"), "invalid_text"),
        (wire.ThreadChange(archived_at="yesterday"), "invalid_json"),
        (wire.ThreadChange(archived_at="2026-11-30T12:00:00"), "invalid_json"),
        (wire.ThreadChange(access="inherit"), "invalid_json"),
    ],
    ids=["long", "nul", "surrogate", "no time", "no zone", "nothing to inherit"],
)
async def test_a_bad_change_changes_nothing(change: wire.ThreadChange, code: str) -> None:
    async with open_world() as world:
        ada = await world.user("ada")
        thread_id = await world.thread(ada)

        assert await refused(world.store.change_thread(ada, thread_id, change)) == (400, code)
        assert len(await world.log(ada, thread_id)) == 2


async def test_only_the_server_names_threads() -> None:
    async with open_world() as world:
        ada = await world.user("ada")

        call = world.store.create_thread(ada, wire.NewThread(), thread_id="thr_mine")
        assert await refused(call) == (403, "forbidden")
        call = world.store.create_thread(SYSTEM, wire.NewThread(), thread_id="No Good")
        assert await refused(call) == (400, "invalid_json")
