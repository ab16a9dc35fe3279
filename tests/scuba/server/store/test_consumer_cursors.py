"""Consumer cursors in the store: never back, seen at once, written once a second, never lost."""

from pathlib import Path

import pytest
import trio

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import Caller, consumers, unwritten
from scuba.server.store.consumer_cursors import MOST_CONSUMERS
from scuba.server.store.consumers import Consumers
from tests.kit.store import World, open_world, problem, refused, text

ROLES: tuple[Role, ...] = ("owner", "member", "approver", "tool_runner", "commenter")


async def read_by_ada(world: World, events: int = 9) -> tuple[Caller, str]:
    """Return a user and her thread, whose head is `events`."""
    ada = await world.user("ada")
    thread_id = await world.thread(ada)
    if events > 2:
        await world.append(ada, thread_id, *[text("x") for _ in range(events - 2)])
    return ada, thread_id


async def shown(world: World, caller: Caller, thread_id: str) -> dict[tuple[str, str], int]:
    items, _ = await world.store.consumers.listing(caller, thread_id, limit=1_000, after=None)
    return {(item.principal_id, item.consumer): item.seq for item in items}


async def stored(world: World) -> dict[tuple[str, str], int]:
    rows = await world.store._engine.read(  # what another server would see
        lambda tx: tx.all("SELECT principal_id, consumer, seq FROM consumer_cursors")
    )
    return {(row[0], row[1]): row[2] for row in rows}


# --- what a cursor is --------------------------------------------------------------------------


async def test_a_cursor_goes_forward_only_and_no_further_than_the_log() -> None:
    """Chapter 10."""
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        put = world.store.consumers.put

        assert await put(ada, thread_id, "default", 4) == 4
        assert await put(ada, thread_id, "default", 9) == 9
        assert await put(ada, thread_id, "default", 5) == 9
        assert await put(ada, thread_id, "phone", 0) == 0
        beyond = await problem(put(ada, thread_id, "default", 10))
        assert (beyond.status, beyond.code) == (409, "future_cursor")
        assert beyond.fields == {"last_seq": 9}
        assert await shown(world, ada, thread_id) == {("ada", "default"): 9, ("ada", "phone"): 0}


async def test_every_role_has_cursors_and_each_only_its_own() -> None:
    """Chapter 3.2."""
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        for role in ROLES:
            who = await world.user(role)
            await world.grant(ada, thread_id, who, role)
            await world.store.consumers.put(who, thread_id, "default", 3)

        assert await shown(world, ada, thread_id) == {(role, "default"): 3 for role in ROLES}


async def test_who_has_left_or_reads_from_above_is_not_listed() -> None:
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        bob, cleo = await world.user("bob"), await world.user("cleo")
        for who in (bob, cleo):
            await world.grant(ada, thread_id, who, "member")
        _, below = await world.store.create_subthread(bob, thread_id, wire.NewSubthread())
        for who, on in ((bob, thread_id), (cleo, thread_id), (cleo, below.thread_id)):
            await world.store.consumers.put(who, on, "default", 2)

        assert set(await shown(world, ada, below.thread_id)) == {("cleo", "default")}
        await world.revoke(ada, thread_id, cleo)
        assert set(await shown(world, ada, thread_id)) == {("bob", "default")}
        assert await shown(world, ada, below.thread_id) == {}
        await world.grant(ada, thread_id, cleo, "member")
        assert ("cleo", "default") in await shown(world, ada, thread_id)


async def test_an_unseen_thread_has_no_cursors_and_takes_none() -> None:
    async with open_world() as world:
        _, thread_id = await read_by_ada(world)
        eve = await world.user("eve")
        gone = (404, "thread_not_found")
        for thread in (thread_id, "thr_none"):
            assert await refused(world.store.consumers.put(eve, thread, "..bad name", 99)) == gone
            listing = world.store.consumers.listing(eve, thread, limit=9, after=None)
            assert await refused(listing) == gone


async def test_a_consumer_has_a_plain_name() -> None:
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        for consumer in ("", "a b", "x" * 65, "é", "a/b", "%2e"):
            bad = (400, "invalid_query")
            assert await refused(world.store.consumers.put(ada, thread_id, consumer, 1)) == bad
        assert await shown(world, ada, thread_id) == {}


async def test_a_principal_has_so_many_consumers_on_a_thread() -> None:
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        for number in range(MOST_CONSUMERS):
            await world.store.consumers.put(ada, thread_id, f"c{number}", 1)

        full = (409, "limit_reached")
        assert await refused(world.store.consumers.put(ada, thread_id, "one-more", 1)) == full
        assert await world.store.consumers.put(ada, thread_id, "c0", 2) == 2


async def test_cursors_are_listed_by_name_a_page_at_a_time() -> None:
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        names = [f"c{number}" for number in range(5)]
        for name in reversed(names):
            await world.store.consumers.put(ada, thread_id, name, 1)
            await world.store.consumers.put(ada, thread_id, name, 2)
        found: list[wire.ConsumerCursor] = []
        after: str | None = None
        while True:
            page, after = await world.store.consumers.listing(ada, thread_id, limit=2, after=after)
            found += page
            if after is None:
                break

        assert [(item.consumer, item.seq) for item in found] == [(name, 2) for name in names]


# --- when it is written ------------------------------------------------------------------------


def period(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have a cursor written so often."""
    monkeypatch.setattr(consumers, "PERIOD_S", seconds)
    monkeypatch.setattr(unwritten, "PERIOD_S", seconds)


async def test_many_moves_are_seen_at_once_and_wait_to_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chapter 10."""
    period(monkeypatch, 3_600)
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world, 60)
        for seq in range(1, 61):
            await world.store.consumers.put(ada, thread_id, "default", seq)
            assert await shown(world, ada, thread_id) == {("ada", "default"): seq}
            assert await stored(world) == {("ada", "default"): 1}  # it is new: stored at once
        await world.store.consumers.aclose()

        assert await stored(world) == {("ada", "default"): 60}


async def test_closing_the_store_writes_what_waits(tmp_path: Path) -> None:
    async with open_world(tmp_path / "store.db") as world:
        ada, thread_id = await read_by_ada(world)
        await world.store.consumers.put(ada, thread_id, "default", 1)
        await world.store.consumers.put(ada, thread_id, "default", 7)
    async with open_world(tmp_path / "store.db") as again:
        assert await stored(again) == {("ada", "default"): 7}


async def test_a_cursor_written_by_another_server_is_not_set_back() -> None:
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        other = Consumers(world.store._engine, world.clock)  # as on another server
        await other.put(ada, thread_id, "default", 1)
        await other.put(ada, thread_id, "default", 3)
        await world.store.consumers.put(ada, thread_id, "default", 8)
        await world.store.consumers.aclose()
        await other.aclose()

        assert await stored(world) == {("ada", "default"): 8}
        assert await other.put(ada, thread_id, "default", 5) == 8


async def test_what_cannot_be_written_waits_for_the_next_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    period(monkeypatch, 0.1)
    async with open_world() as world, trio.open_nursery() as nursery:
        ada, thread_id = await read_by_ada(world)
        engine = world.store._engine  # its failure is what this is about
        ours, write, failed = Consumers(engine, world.clock), engine.write, 0

        async def fail_once(work: object) -> object:
            nonlocal failed
            failed += 1
            if failed == 1:
                raise Problem(503, "unavailable", "on order")
            return await write(work)  # type: ignore[arg-type]  # as it came

        await ours.put(ada, thread_id, "default", 1)
        await ours.put(ada, thread_id, "default", 6)
        monkeypatch.setattr(engine, "write", fail_once)
        nursery.start_soon(ours.run)
        with trio.fail_after(10):
            while (await stored(world))[("ada", "default")] != 6:
                assert await ours.put(ada, thread_id, "default", 2) == 6
                await trio.sleep(0.02)

        assert failed == 2
        nursery.cancel_scope.cancel()


async def test_cursors_that_rest_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    period(monkeypatch, 0.1)
    async with open_world() as world:
        ada, thread_id = await read_by_ada(world)
        for number in range(MOST_CONSUMERS):
            await world.store.consumers.put(ada, thread_id, f"c{number}", number % 2)
            await world.store.consumers.put(ada, thread_id, f"c{number}", 3)
        waiting = world.store.consumers._unwritten  # what it holds is the point
        with trio.fail_after(10):
            while len(waiting) or waiting.recent:  # noqa: ASYNC110  # nobody tells
                await trio.sleep(0.02)
