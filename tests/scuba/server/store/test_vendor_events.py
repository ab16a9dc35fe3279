"""An event of a vendor's belongs to nobody's run, or to an open one of its author (5.2, 6.4)."""

import pytest

from scuba import wire
from scuba.server.store import Caller
from tests.kit.store import World, event, finished, open_world, problem, refused, started, text


def mark(run: str | None = None, key: str | None = None) -> wire.NewEvent:
    return event("x.acme.mark", {"at": 1}, run=run, key=key)


async def scene(world: World) -> tuple[Caller, Caller, str]:
    """Return an owner with a finished run and a bare message, a member with an open run."""
    ada, eve = await world.user("ada"), await world.user("eve")
    thread_id = await world.thread(ada)
    await world.grant(ada, thread_id, eve, "member")
    await world.append(ada, thread_id, started("done"), finished("done"), text("hi", "bare"))
    await world.append(eve, thread_id, started("of_eve"))
    return ada, eve, thread_id


async def test_it_may_name_no_run_or_an_own_open_one() -> None:
    async with open_world() as world:
        _, eve, thread_id = await scene(world)
        await world.append(eve, thread_id, mark())
        got = await world.append(eve, thread_id, mark("of_eve"))

        run = await world.store.run(eve, thread_id, "of_eve")
        assert (run.status, run.last_seq) == ("open", got.last_seq)


@pytest.mark.parametrize(
    ("run", "refusal"),
    [
        ("of_eve", (403, "not_your_run")),
        ("done", (409, "run_finished")),
        ("bare", (409, "run_complete")),
        ("unknown", (404, "run_not_found")),
    ],
)
async def test_it_may_name_no_other_run(run: str, refusal: tuple[int, str]) -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)
        head = (await world.log(ada, thread_id))[-1].seq
        error = await problem(world.append(ada, thread_id, text("x"), mark(run)))

        assert (error.status, error.code, error.fields["index"]) == (*refusal, 1)
        assert (await world.log(ada, thread_id))[-1].seq == head


async def test_a_batch_is_judged_in_its_order() -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)
        await world.append(ada, thread_id, started("r"), mark("r"), finished("r"))
        late = world.append(ada, thread_id, started("s"), finished("s"), mark("s"))
        assert await refused(late) == (409, "run_finished")

        early = world.append(ada, thread_id, mark("t"), started("t"))
        assert await refused(early) == (404, "run_not_found")


async def test_a_late_repeat_is_a_receipt_all_the_same() -> None:
    async with open_world() as world:
        ada, _, thread_id = await scene(world)
        first = await world.append(ada, thread_id, started("r"), mark("r", key="k"))
        await world.append(ada, thread_id, finished("r"))
        again = await world.append(ada, thread_id, mark("r", key="k"))

        assert again.events[0].seq == first.events[1].seq
        assert again.events[0].duplicate
