"""Artifacts in the store: the thread decides who may, a key makes one thing, nothing is lost."""

import hashlib

import trio

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import Caller
from scuba.server.store.versions import MOST_VERSIONS, UPLOAD_MS, Content, NewVersion
from tests.kit.store import World, finished, open_world, problem, refused, started, text

ROLES: tuple[Role, ...] = ("owner", "member", "approver", "tool_runner", "commenter")
FILE = wire.NewArtifact(name="report.txt", media_type="text/plain")


def content(world: World, data: bytes, stored_bytes: int = 0) -> Content:
    return Content(
        content_id=world.store.artifacts.new_content_id(),
        stored_bytes=stored_bytes,
        tail=data,
        digest=hashlib.sha256(data).digest(),
    )


async def add(
    world: World, caller: Caller, artifact_id: str, data: bytes = b"x", **asked: object
) -> wire.ArtifactVersion:
    wanted = NewVersion(**asked)  # type: ignore[arg-type]  # what each test asks is its own
    return (await world.store.artifacts.add(caller, artifact_id, wanted, content(world, data)))[1]


async def shelved(world: World) -> tuple[Caller, str, str]:
    ada = await world.user("ada")
    thread_id = await world.thread(ada)
    _, made = await world.store.artifacts.create(ada, thread_id, FILE)
    return ada, thread_id, made.artifact_id


# --- who may -----------------------------------------------------------------------------------


async def test_owners_and_members_write_and_every_role_reads() -> None:
    """Chapter 3.2."""
    async with open_world() as world:
        ada, thread_id, artifact_id = await shelved(world)
        await add(world, ada, artifact_id)
        for role in ROLES:
            who = await world.user(role)
            await world.grant(ada, thread_id, who, role)
            shelf = world.store.artifacts

            assert (await shelf.listing(who, thread_id, limit=9, after=None))[0]
            assert (await shelf.whole(who, artifact_id)).latest_version
            assert (await shelf.version(who, artifact_id, 1))[0] == "report.txt"
            assert await shelf.piece(who, artifact_id, 1, 0) == b"x"
            if role in ("owner", "member"):
                await shelf.create(who, thread_id, FILE)
                await add(world, who, artifact_id)
            else:
                no = (403, "forbidden")
                assert await refused(shelf.create(who, thread_id, FILE)) == no
                assert await refused(add(world, who, artifact_id)) == no
                assert await refused(shelf.expect(who, artifact_id, NewVersion())) == no


async def test_an_unseen_artifact_is_as_unknown_as_one_that_never_was() -> None:
    """Chapter 3.6."""
    async with open_world() as world:
        _, thread_id, artifact_id = await shelved(world)
        eve = await world.user("eve")
        shelf = world.store.artifacts
        for call in (
            lambda id_: shelf.whole(eve, id_),
            lambda id_: add(world, eve, id_),
            lambda id_: shelf.version(eve, id_, 1),
            lambda id_: shelf.piece(eve, id_, 1, 0),
            lambda id_: shelf.expect(eve, id_, NewVersion(media_type="bad")),
        ):
            unseen, unknown = await problem(call(artifact_id)), await problem(call("art_none"))
            assert (unseen.status, unseen.code) == (404, "artifact_not_found")
            assert (unseen.detail, unseen.fields) == (unknown.detail, unknown.fields)
        for asked in (
            shelf.listing(eve, thread_id, limit=9, after=None),
            shelf.create(eve, thread_id, FILE),
        ):
            assert await refused(asked) == (404, "thread_not_found")


async def test_a_member_of_a_revoked_grant_reads_no_further_piece() -> None:
    """Chapter 3.7."""
    async with open_world() as world:
        ada, thread_id, artifact_id = await shelved(world)
        bob = await world.user("bob")
        await world.grant(ada, thread_id, bob, "member")
        await add(world, ada, artifact_id)
        await world.revoke(ada, thread_id, bob)

        gone = (404, "artifact_not_found")
        assert await refused(world.store.artifacts.piece(bob, artifact_id, 1, 0)) == gone


async def test_an_archived_thread_takes_no_artifact_and_shows_what_it_has() -> None:
    """Chapter 4.3."""
    async with open_world() as world:
        ada, thread_id, artifact_id = await shelved(world)
        await add(world, ada, artifact_id, b"old", key="k")
        archived = wire.ThreadChange(archived_at="2027-01-01T00:00:00Z")
        await world.store.change_thread(ada, thread_id, archived)

        closed = (409, "thread_archived")
        assert await refused(world.store.artifacts.create(ada, thread_id, FILE)) == closed
        assert await refused(add(world, ada, artifact_id)) == closed
        assert (await add(world, ada, artifact_id, b"old", key="k")).version == 1
        assert await world.store.artifacts.piece(ada, artifact_id, 1, 0) == b"old"


# --- making ------------------------------------------------------------------------------------


async def test_a_key_makes_one_artifact_for_its_author() -> None:
    async with open_world() as world:
        ada, thread_id, _ = await shelved(world)
        bob = await world.user("bob")
        await world.grant(ada, thread_id, bob, "member")
        shelf = world.store.artifacts
        keyed = wire.NewArtifact(name="a", media_type="a/b", key="k")
        other = wire.NewArtifact(name="b", media_type="a/b", key="k")

        new, made = await shelf.create(ada, thread_id, keyed)
        again = await shelf.create(ada, thread_id, keyed)
        of_bob = await shelf.create(bob, thread_id, keyed)

        assert new
        assert again == (False, made)
        assert of_bob[1].artifact_id != made.artifact_id
        assert await refused(shelf.create(ada, thread_id, other)) == (409, "key_conflict")


async def test_artifacts_are_listed_oldest_first_a_page_at_a_time() -> None:
    async with open_world() as world:
        ada, thread_id, first = await shelved(world)
        ids = [first]
        for _ in range(4):
            world.clock.pass_s(1)
            ids.append((await world.store.artifacts.create(ada, thread_id, FILE))[1].artifact_id)
        found: list[str] = []
        after: str | None = None
        while True:
            page, after = await world.store.artifacts.listing(ada, thread_id, limit=2, after=after)
            found += [item.artifact_id for item in page]
            if after is None:
                break

        assert found == ids


async def test_writers_who_look_first_never_overwrite_each_other() -> None:
    """Chapter 11.2: each of eight writers adds two versions on top of the newest it saw."""
    async with open_world() as world:
        ada, thread_id, artifact_id = await shelved(world)
        lost = 0

        async def write(who: Caller) -> None:
            nonlocal lost
            done = 0
            while done < 2:
                latest = (await world.store.artifacts.whole(who, artifact_id)).latest_version
                try:
                    await add(world, who, artifact_id, who.id.encode(), if_match=latest)
                    done += 1
                except Problem as error:
                    if error.code != "version_conflict":
                        raise
                    lost += 1

        writers = [await world.user(f"w{number}") for number in range(8)]
        for who in writers:
            await world.grant(ada, thread_id, who, "member")
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for who in writers:
                    nursery.start_soon(write, who)
        made = (await world.store.artifacts.whole(ada, artifact_id)).versions or []

        assert [version.version for version in made] == list(range(1, 17))
        assert sorted(version.created_by for version in made) == sorted([w.id for w in writers] * 2)
        assert lost


async def test_a_repeat_is_the_first_answer_whatever_came_since() -> None:
    async with open_world() as world:
        ada, _, artifact_id = await shelved(world)
        first = await add(world, ada, artifact_id, b"one", key="k", if_match=0)
        await add(world, ada, artifact_id, b"two")
        seqs = len(world.changes)

        again = await add(world, ada, artifact_id, b"one", key="k", if_match=0)
        other = await problem(add(world, ada, artifact_id, b"three", key="k"))
        typed = await problem(add(world, ada, artifact_id, b"one", key="k", media_type="a/b"))

        assert again == first
        assert (other.status, other.code, other.fields) == (409, "key_conflict", {"version": 1})
        assert typed.code == "key_conflict"
        assert len(world.changes) == seqs
        assert await world.store.artifacts.expect(ada, artifact_id, NewVersion(key="k", if_match=0))


async def test_an_artifact_has_so_many_versions() -> None:
    async with open_world() as world:
        ada, _, artifact_id = await shelved(world)

        def fill(w: object) -> None:
            w.run("UPDATE artifacts SET latest_version = ?", (MOST_VERSIONS - 1,))  # type: ignore[attr-defined]

        await world.store._engine.write(fill)  # a thousand versions take too long
        assert (await add(world, ada, artifact_id)).version == MOST_VERSIONS
        assert await refused(add(world, ada, artifact_id)) == (409, "limit_reached")


# --- the event ---------------------------------------------------------------------------------


async def test_a_version_may_belong_to_an_open_run_of_its_author() -> None:
    """Chapter 5.2."""
    async with open_world() as world:
        ada, thread_id, artifact_id = await shelved(world)
        bob = await world.user("bob")
        await world.grant(ada, thread_id, bob, "member")
        await world.append(ada, thread_id, started("mine"), started("done"), finished("done"))
        await world.append(ada, thread_id, text("hi", "bare"))
        await world.append(bob, thread_id, started("theirs"))
        await add(world, ada, artifact_id, run_id="mine")
        told = (await world.log(ada, thread_id))[-1]

        assert (told.type, told.run_id) == ("artifact_version_added", "mine")
        for run_id, no in {
            "theirs": (403, "not_your_run"),
            "none": (404, "run_not_found"),
            "done": (409, "run_finished"),
            "bare": (409, "run_complete"),
            "no id": (400, "invalid_query"),
        }.items():
            assert await refused(add(world, ada, artifact_id, run_id=run_id)) == no


# --- uploads -----------------------------------------------------------------------------------


async def test_what_a_dead_server_left_is_swept_by_the_next_upload() -> None:
    async with open_world() as world:
        ada, _, artifact_id = await shelved(world)
        shelf = world.store.artifacts
        left, living = shelf.new_content_id(), shelf.new_content_id()
        await shelf.keep_piece(ada, left, 0, b"left")
        world.clock.pass_s(UPLOAD_MS / 1_000 - 1)
        await shelf.keep_piece(ada, living, 0, b"living")
        world.clock.pass_s(2)
        await shelf.keep_piece(ada, shelf.new_content_id(), 0, b"next")
        late = Content(content_id=left, stored_bytes=4, tail=b"", digest=b"d" * 32)
        fine = Content(content_id=living, stored_bytes=6, tail=b"", digest=b"d" * 32)

        gone = (503, "unavailable")
        assert await refused(shelf.add(ada, artifact_id, NewVersion(), late)) == gone
        assert (await shelf.add(ada, artifact_id, NewVersion(), fine))[1].size == 6
        assert await shelf.piece(ada, artifact_id, 1, 2) == b"ving"


async def test_dropping_never_takes_what_a_version_has() -> None:
    async with open_world() as world:
        ada, _, artifact_id = await shelved(world)
        shelf = world.store.artifacts
        content_id = shelf.new_content_id()
        await shelf.keep_piece(ada, content_id, 0, b"kept")
        whole = Content(content_id=content_id, stored_bytes=4, tail=b"", digest=b"d" * 32)
        await shelf.add(ada, artifact_id, NewVersion(), whole)
        await shelf.drop(content_id)

        assert await shelf.piece(ada, artifact_id, 1, 0) == b"kept"
