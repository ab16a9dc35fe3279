"""Group commit: together on disk, each with its own answer, and no answer before the commit."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
from outcome import Outcome
from trio.testing import wait_all_tasks_blocked

from scuba.errors import Problem
from scuba.server.store import TokenEnded
from scuba.server.store.engine import BATCH, Engine, Seal, Tx, Write, running
from scuba.server.store.ids import clock_ms
from scuba.server.store.opening import open_database


class Gated:
    """A database whose commits wait for a word, and count what they were given."""

    def __init__(self, path: Path | None) -> None:
        self._inner = open_database(path)
        self.go = trio.Event()
        self.batches: list[int] = []
        self.readers = self._inner.readers
        self.look = self._inner.look
        self.close = self._inner.close

    def apply(
        self,
        works: Sequence[Callable[[Tx], object]],
        seal: Seal | None = None,
        *,
        patient: bool = False,
    ) -> list[Outcome[object]]:
        trio.from_thread.run(self.go.wait)
        self.batches.append(len(works))
        return self._inner.apply(works, seal, patient=patient)


def note(name: str) -> Callable[[Write], str]:
    def work(w: Write) -> str:
        w.run("INSERT INTO meta VALUES (?, 'noted')", (name,))
        w.tell(TokenEnded(name))
        return name

    return work


def noted(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT name FROM meta WHERE value = 'noted' ORDER BY name")]


async def test_what_waits_while_a_commit_runs_is_the_next_commit_together() -> None:
    database = Gated(None)
    with trio.fail_after(10):
        async with running(database, clock_ms) as (engine, _), trio.open_nursery() as nursery:
            for number in range(BATCH + 50):
                nursery.start_soon(engine.write, note(f"{number:03}"))
            await wait_all_tasks_blocked()
            database.go.set()

    assert sum(database.batches) == BATCH + 50
    assert max(database.batches) == BATCH
    assert len(database.batches) <= 3


async def test_a_failing_write_fails_alone_and_leaves_nothing() -> None:
    database = Gated(None)
    got: dict[str, str] = {}

    def bad(w: Write) -> str:
        note("bad")(w)
        raise Problem(409, "key_conflict", "no")

    def clash(w: Write) -> str:
        note("good 1")(w)
        return note("good 1")(w)

    async def attempt(engine: Engine, name: str, work: Callable[[Write], str]) -> None:
        try:
            got[name] = await engine.write(work)
        except (Problem, sqlite3.IntegrityError) as error:
            got[name] = type(error).__name__

    told: list[object] = []
    with trio.fail_after(10):
        async with running(database, clock_ms) as (engine, _):
            engine.listen(told.append)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(attempt, engine, "first", note("first"))
                await wait_all_tasks_blocked()
                for name, work in (
                    ("a", note("a")),
                    ("bad", bad),
                    ("clash", clash),
                    ("b", note("b")),
                ):
                    nursery.start_soon(attempt, engine, name, work)
                await wait_all_tasks_blocked()
                database.go.set()
            names = await engine.read(noted)

    assert database.batches == [1, 4]
    assert got == {
        "first": "first",
        "a": "a",
        "bad": "Problem",
        "clash": "IntegrityError",
        "b": "b",
    }
    assert names == ["a", "b", "first"]
    assert sorted(c.token_id for c in told if isinstance(c, TokenEnded)) == ["a", "b", "first"]


async def test_listeners_hear_before_the_writer_is_answered_and_never_after_the_undo() -> None:
    order: list[str] = []
    async with running(open_database(None), clock_ms) as (engine, _):
        undo = engine.listen(lambda change: order.append(f"told {change}"))
        await engine.write(note("one"))
        order.append("answered")
        undo()
        await engine.write(note("two"))

    assert len(order) == 2
    assert order[1] == "answered"


async def test_a_started_write_finishes_though_its_waiter_left() -> None:
    database = Gated(None)
    with trio.fail_after(10):
        async with running(database, clock_ms) as (engine, nursery):
            with trio.CancelScope() as scope:
                nursery.start_soon(_cancel_when_blocked, scope)
                await engine.write(note("kept"))
            database.go.set()
            assert await engine.read(noted) == ["kept"]

    assert scope.cancelled_caught


async def test_a_write_not_yet_taken_can_be_taken_back() -> None:
    database = Gated(None)
    with trio.fail_after(10):
        async with running(database, clock_ms) as (engine, nursery):
            nursery.start_soon(engine.write, note("first"))
            await wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                nursery.start_soon(_cancel_when_blocked, scope)
                await engine.write(note("never"))
            database.go.set()
            assert await engine.read(noted) == ["first"]

    assert database.batches == [1]


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_leaving_finishes_what_was_started_and_refuses_what_was_not(tmp_path: Path) -> None:
    database = Gated(tmp_path / "bubble.db")
    refused: list[int] = []

    async def late(engine: Engine) -> None:
        with pytest.raises(Problem) as caught:
            await engine.write(note("late"))
        refused.append(caught.value.status)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            async with running(database, clock_ms) as (engine, _):
                nursery.start_soon(engine.write, note("started"))
                await wait_all_tasks_blocked()
                nursery.start_soon(late, engine)
                await wait_all_tasks_blocked()
                nursery.start_soon(_open_gate, database)
            nursery.start_soon(late, engine)

    assert refused == [503, 503]
    again = open_database(tmp_path / "bubble.db")
    assert again.look(noted) == ["started"]
    again.close()


async def _open_gate(database: Gated) -> None:
    await wait_all_tasks_blocked()
    database.go.set()


async def test_a_full_disk_fails_every_waiter_and_the_store_lives_on(tmp_path: Path) -> None:
    database = open_database(tmp_path / "bubble.db")
    limit = "PRAGMA max_page_count = {}"
    full: list[int] = []

    async def grow(engine: Engine, name: str) -> None:
        with pytest.raises(Problem) as caught:
            await engine.write(
                lambda w: w.run("INSERT INTO meta VALUES (?, ?)", (name, "x" * 10**5))
            )
        full.append(caught.value.status)

    with trio.fail_after(10):
        async with running(database, clock_ms) as (engine, _):
            database.apply([lambda tx: tx.all(limit.format(1))])  # as few as it has
            async with trio.open_nursery() as nursery:
                nursery.start_soon(grow, engine, "a")
                nursery.start_soon(grow, engine, "b")
            assert await engine.read(noted) == []
            database.apply([lambda tx: tx.all(limit.format(10**6))])
            await engine.write(note("better"))
            assert await engine.read(noted) == ["better"]

    assert full == [503, 503]


async def test_a_reader_sees_only_what_is_committed(tmp_path: Path) -> None:
    database = open_database(tmp_path / "bubble.db")
    seen: list[list[str]] = []

    def peek(w: Write) -> None:
        note("half")(w)
        seen.append(database.look(noted))

    async with running(database, clock_ms) as (engine, _):
        await engine.write(peek)
        seen.append(await engine.read(noted))
        with pytest.raises(Problem):
            await engine.read(lambda tx: tx.run("DELETE FROM meta"))

    assert seen == [[], ["half"]]


@pytest.mark.parametrize("name", [None, "bubble.db"])
async def test_who_waits_for_a_look_that_hangs_can_leave_and_the_close_waits_for_it(
    tmp_path: Path, name: str | None
) -> None:
    go_on, order = threading.Event(), list[str]()

    def hang(tx: Tx) -> None:
        assert go_on.wait(10)
        noted(tx)
        order.append("looked")

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            async with running(open_database(name and tmp_path / name), clock_ms) as (engine, _):
                with trio.move_on_after(0.1) as left:
                    await engine.read(hang)
                order.append("left")
                nursery.start_soon(_after_a_while, go_on.set)
            order.append("closed")

    assert left.cancelled_caught
    assert order == ["left", "looked", "closed"]


async def _after_a_while(act: Callable[[], None]) -> None:
    await wait_all_tasks_blocked(0.05)
    act()
