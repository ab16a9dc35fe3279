"""Artifacts and cursors of two servers on one database: as with one (16.5)."""

import hashlib

import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller, Store, open_store
from scuba.server.store.versions import Content, NewVersion
from tests.kit.postgres import Stores
from tests.kit.store import event

FILE = wire.NewArtifact(name="x", media_type="a/b")


async def begin(store: Store) -> tuple[Caller, str]:
    body = wire.NewPrincipal(principal_id="ada", kind="user")
    await store.create_principal(SYSTEM, body)
    ada = Caller(wire.Principal(principal_id="ada", kind="user"))
    _, thread = await store.create_thread(ada, wire.NewThread())
    return ada, thread.thread_id


async def test_writers_on_two_servers_never_overwrite_each_other(postgres_stores: Stores) -> None:
    """Chapter 11.2."""
    place = postgres_stores.take()
    async with open_store(place) as one, open_store(place) as other:
        ada, thread_id = await begin(one)
        _, made = await one.artifacts.create(ada, thread_id, FILE)
        wins: list[int] = []

        async def write(store: Store, said: bytes) -> None:
            shelf = store.artifacts
            while True:
                latest = (await shelf.whole(ada, made.artifact_id)).latest_version
                content = Content(
                    content_id=shelf.new_content_id(),
                    stored_bytes=0,
                    tail=said,
                    digest=hashlib.sha256(said).digest(),
                )
                try:
                    asked = NewVersion(if_match=latest)
                    _, version = await shelf.add(ada, made.artifact_id, asked, content)
                except Problem as error:
                    if error.code != "version_conflict":
                        raise
                else:
                    wins.append(version.version)
                    return

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for number in range(12):
                    store = one if number % 2 else other
                    nursery.start_soon(write, store, b"%d" % number)

        assert sorted(wins) == list(range(1, 13))
        page, _ = await other.artifacts.listing(ada, thread_id, limit=9, after=None)
        assert [item.latest_version for item in page] == [12]
    postgres_stores.sweep()


async def test_one_key_sent_to_two_servers_is_one_version(postgres_stores: Stores) -> None:
    place = postgres_stores.take()
    async with open_store(place) as one, open_store(place) as other:
        ada, thread_id = await begin(one)
        _, made = await one.artifacts.create(ada, thread_id, FILE)
        answers: list[tuple[bool, wire.ArtifactVersion]] = []

        async def send(store: Store) -> None:
            shelf, content_id = store.artifacts, store.artifacts.new_content_id()
            await shelf.keep_piece(ada, content_id, 0, b"whole")
            content = Content(content_id=content_id, stored_bytes=5, tail=b"", digest=b"d" * 32)
            asked = NewVersion(key="k")
            answers.append(await shelf.add(ada, made.artifact_id, asked, content))

        async with trio.open_nursery() as nursery:
            for store in (one, other, one, other):
                nursery.start_soon(send, store)

        assert sorted(new for new, _ in answers) == [False, False, False, True]
        assert len({version.created_at for _, version in answers}) == 1
        assert await other.artifacts.piece(ada, made.artifact_id, 1, 0) == b"whole"
    postgres_stores.sweep()


async def test_a_cursor_that_moves_on_two_servers_never_goes_back(postgres_stores: Stores) -> None:
    """Chapter 10."""
    place = postgres_stores.take()
    async with open_store(place) as one:
        async with open_store(place) as other:
            ada, thread_id = await begin(one)
            batch = wire.NewEvents(events=[event("x.a.b")] * 8)
            await one.append(ada, thread_id, batch)
            for store, seq in ((one, 1), (other, 2), (one, 9), (other, 5)):
                assert await store.consumers.put(ada, thread_id, "default", seq) == seq
            await one.consumers.aclose()
            assert await other.consumers.put(ada, thread_id, "default", 6) == 9
        items, _ = await one.consumers.listing(ada, thread_id, limit=9, after=None)

        assert [item.seq for item in items] == [9]
    postgres_stores.sweep()
