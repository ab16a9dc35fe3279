"""Reading: every event once, in order, in bounded pages that cut no foreign run (7)."""

import pytest

from scuba import wire
from scuba.server.store import Caller
from scuba.server.store.reading import PAGE_BYTES
from tests.kit.store import (
    World,
    decide,
    event,
    finished,
    open_world,
    refused,
    started,
    text,
    tool_call,
)


async def talk(world: World, count: int) -> tuple[Caller, Caller, str]:
    """Return two people and a thread whose head is `count`."""
    ada = await world.user("ada")
    eve = await world.user("eve")
    thread_id = await world.thread(ada)
    await world.grant(ada, thread_id, eve, "member")
    for number in range(3, count):
        await world.append(ada, thread_id, text(str(number)))
    return ada, eve, thread_id


def seqs(page: wire.Page) -> list[int]:
    return [event.seq for event in page.events]


async def test_walking_up_and_down_meets_every_event_once() -> None:
    async with open_world() as world:
        ada, _, thread_id = await talk(world, 10)
        up = await world.page(ada, thread_id, after=0, limit=4)
        assert (seqs(up), up.has_more, up.next_after) == ([1, 2, 3, 4], True, 4)
        up = await world.page(ada, thread_id, after=8, limit=4)
        assert (seqs(up), up.has_more, up.next_after) == ([9, 10], False, None)

        down = await world.page(ada, thread_id, before=8, limit=4)
        assert (seqs(down), down.has_more, down.next_before) == ([4, 5, 6, 7], True, 4)
        down = await world.page(ada, thread_id, before=4, limit=4)
        assert (seqs(down), down.has_more, down.next_before) == ([1, 2, 3], False, None)
        assert (down.first_seq, down.last_seq) == (1, 10)


async def test_the_newest_end_at_the_floor() -> None:
    async with open_world() as world:
        ada, _, thread_id = await talk(world, 10)
        page = await world.page(ada, thread_id, tail=3)
        assert (seqs(page), page.has_more) == ([8, 9, 10], True)
        page = await world.page(ada, thread_id, tail=300, after=7)
        assert (seqs(page), page.has_more) == ([8, 9, 10], False)
        page = await world.page(ada, thread_id, after=10)
        assert (seqs(page), page.has_more) == ([], False)


async def test_more_than_one_fetch_is_still_one_page() -> None:
    async with open_world() as world:
        ada, _, thread_id = await talk(world, 3)
        for _ in range(2):
            await world.append(ada, thread_id, *[text("x")] * 130)
        page = await world.page(ada, thread_id, after=0, limit=250)
        assert (seqs(page), page.has_more) == (list(range(1, 251)), True)
        page = await world.page(ada, thread_id, tail=250)
        assert (seqs(page), page.has_more) == (list(range(14, 264)), True)


async def test_filters_leave_the_seqs_as_they_are() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(eve, thread_id, started("r"), tool_call("c", "r"))
        await world.append(ada, thread_id, text("between"), decide("r", "c"))
        await world.append(eve, thread_id, finished("r"))

        page = await world.page(ada, thread_id, run_id="r")
        assert seqs(page) == [4, 5, 7, 8]
        page = await world.page(ada, thread_id, types=("run_started", "run_finished"))
        assert seqs(page) == [4, 8]
        page = await world.page(ada, thread_id, run_id="r", types=("message_part",), after=5)
        assert seqs(page) == []


async def test_a_page_ends_at_its_size_but_never_empty() -> None:
    async with open_world() as world:
        ada, _, thread_id = await talk(world, 3)
        for _ in range(7):
            await world.append(ada, thread_id, text("ä" * 100_000))
        page = await world.page(ada, thread_id, after=3)
        assert (seqs(page), page.has_more, page.next_after) == ([4, 5, 6, 7, 8], True, 8)
        assert sum(len(bytes(e.payload)) for e in page.events) < PAGE_BYTES

        page = await world.page(ada, thread_id, tail=100)
        assert (seqs(page), page.next_before) == ([6, 7, 8, 9, 10], 6)
        events = await world.store.read("ada", thread_id, 3, limit=9, max_bytes=1)
        assert [event.seq for event in events] == [4]


# --- aligned pages -----------------------------------------------------------------------------


async def test_a_tail_reaches_down_to_the_beginning_of_a_foreign_run() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(eve, thread_id, started("r"), text("a", "r"))
        for _ in range(4):
            await world.append(ada, thread_id, text("meanwhile"))
        await world.append(eve, thread_id, finished("r"))

        page = await world.page(ada, thread_id, tail=2, after=8, align_runs=True)
        assert (seqs(page), page.aligned) == ([4, 5, 6, 7, 8, 9, 10], True)
        own = await world.page(eve, thread_id, tail=2, align_runs=True)
        assert (seqs(own), own.aligned) == ([9, 10], True)
        plain = await world.page(ada, thread_id, tail=2)
        assert (seqs(plain), plain.aligned) == ([9, 10], None)


async def test_what_comes_in_by_reaching_down_is_not_cut_either() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(eve, thread_id, started("r1"))
        await world.append(ada, thread_id, text("x"))
        await world.append(eve, thread_id, started("r2"), finished("r1"))
        await world.append(ada, thread_id, text("x"))
        await world.append(eve, thread_id, finished("r2"))

        page = await world.page(ada, thread_id, tail=1, align_runs=True)
        assert (seqs(page), page.aligned) == ([4, 5, 6, 7, 8, 9], True)
        page = await world.page(ada, thread_id, before=6, limit=1, align_runs=True)
        assert (seqs(page), page.aligned, page.next_before) == ([5], True, 5)


async def test_a_decision_about_an_old_run_does_not_fetch_it() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(eve, thread_id, started("r"), tool_call("c", "r"), finished("r"))
        await world.append(ada, thread_id, decide("r", "c"))

        page = await world.page(eve, thread_id, tail=1, align_runs=True)
        assert (seqs(page), page.aligned) == ([7], True)


async def test_reaching_down_has_a_bound_and_says_so() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(eve, thread_id, started("r"))
        for _ in range(9):
            await world.append(ada, thread_id, *[text("x")] * 250)
        await world.append(eve, thread_id, finished("r"))

        page = await world.page(ada, thread_id, tail=1, align_runs=True)
        assert page.aligned is False
        assert seqs(page) == list(range(2_255 - 2_000, 2_256))
        assert (page.has_more, page.next_before) == (True, 255)


# --- single things, bad questions --------------------------------------------------------------


async def test_one_event_and_what_is_not_there() -> None:
    async with open_world() as world:
        ada, eve, thread_id = await talk(world, 3)
        await world.append(ada, thread_id, text("x", key="k"))

        assert (await world.store.event(ada, thread_id, 4)).key == "k"
        assert (await world.store.event(eve, thread_id, 4)).key is None
        for seq in (0, 5, -1, 10**30):
            assert await refused(world.store.event(ada, thread_id, seq)) == (404, "not_found")
        assert await refused(world.store.run(ada, thread_id, "r")) == (404, "run_not_found")


@pytest.mark.parametrize(
    "asked",
    [
        {"limit": 0},
        {"limit": 1_001},
        {"tail": 0},
        {"tail": 1_001},
        {"before": 5, "tail": 5},
        {"before": 5, "after": 1},
        {"after": -1},
        {"types": ("x.a.b",) * 51},
        {"align_runs": True},
        {"align_runs": True, "tail": 5, "run_id": "r"},
    ],
    ids=str,
)
async def test_a_question_that_makes_no_sense_is_refused(asked: dict[str, object]) -> None:
    async with open_world() as world:
        ada, _, thread_id = await talk(world, 3)

        assert await refused(world.page(ada, thread_id, **asked)) == (400, "invalid_query")


FILTERS = [
    {"run_id": run, "types": types}
    for run in (None, "run_b")
    for types in [(), ("message_part",), ("x.a.b", "run_finished"), ("message_part", "x.a.b")]
]


@pytest.mark.parametrize("scan", [1, 3, 5_000])
async def test_a_filter_misses_nothing_however_little_a_page_looks_at(
    monkeypatch: pytest.MonkeyPatch, scan: int
) -> None:
    """Field case 14.2: a page of a very long thread ends in bounded time, also with a filter."""
    monkeypatch.setattr("scuba.server.store.walking.SCAN", scan)
    async with open_world() as world:
        ada = await world.user("ada")
        thread = await world.thread(ada)
        for name in ("run_a", "run_b"):
            await world.append(ada, thread, started(name))
            await world.append(ada, thread, text("1", name), event("x.a.b", run=name))
            await world.append(ada, thread, text("2", name), finished(name), event("x.a.b"))
        log = await world.log(ada, thread)
        for asked in FILTERS:
            run, types = asked["run_id"], asked["types"] or {one.type for one in log}
            fitting = [one.seq for one in log if run in (None, one.run_id) and one.type in types]

            assert await walked(world, ada, thread, {**asked, "after": 0}) == fitting
            assert await walked(world, ada, thread, {**asked, "before": 99}) == fitting


async def walked(world: World, who: Caller, thread: str, asked: dict[str, object]) -> list[int]:
    """Return the seqs of all pages, whichever way they lead."""
    found: list[int] = []
    while True:
        page = await world.page(who, thread, **asked, limit=2)
        found = [*seqs(page), *found] if "before" in asked else [*found, *seqs(page)]
        if page.next_after is None and page.next_before is None:
            return found
        asked |= {"after": page.next_after} if page.next_after else {"before": page.next_before}
