"""QueryActor: the end of each turn is told once, whatever becomes of the actor."""

from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.census import Census
from actors.harness import TextSaid, TurnEnded
from actors.history import recall
from actors.messages import (
    HarnessSaid,
    Interrupt,
    NotInHand,
    QueryInbox,
    SessionEnded,
    StartTurn,
    ThreadInbox,
)
from actors.places import Places
from actors.query import QueryActor
from tests.kit.fakes import BOT, FakeHarness, FakeJournal, FakeLog, FakeSession
from tests.kit.steps import After

ROOM = "thr_a"


def turn(number: int) -> StartTurn:
    return StartTurn(run_id=f"run_{number}", through_seq=number, prompt_id=f"p{number}", text="hi")


def quiet(session: FakeSession) -> None:
    session.echoes = False


def ends(message: ThreadInbox) -> list[str]:
    """Return of which turns a message is the last word."""
    match message:
        case HarnessSaid(said=said):
            return [item.prompt_id for item in said if isinstance(item, TurnEnded)]
        case SessionEnded(prompt_id=str(prompt_id)):
            return [prompt_id]
        case _:
            return []


class Query:
    """An actor, its inbox, and what it says, which is taken only when asked for."""

    def __init__(self, places: Places | None = None) -> None:
        self.inbox, receive = trio.open_memory_channel[QueryInbox](0)
        outbox, self.outbox = trio.open_memory_channel[ThreadInbox](0)
        self.harness = FakeHarness()
        self.actor = QueryActor(
            ROOM,
            BOT,
            receive,
            outbox,
            self.harness,
            FakeJournal(),
            partial(recall, FakeLog(), ROOM, 1, BOT),
            partial(FakeLog().content, ROOM),
            place=(places or Places()).place(),
            drain_s=1.0,
        )

    async def ended(self) -> list[str]:
        """Return which turns have ended, once the actor is gone."""
        return [prompt_id async for message in self.outbox for prompt_id in ends(message)]

    async def next_end(self) -> ThreadInbox:
        """Return the next last word of any turn."""
        with trio.fail_after(100):
            while not ends(message := await self.outbox.receive()):
                pass
        return message


async def test_the_end_of_a_turn_is_told_though_the_actor_crashes_meanwhile(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 10.3."""
    query, gate, told = Query(), trio.Event(), list[str]()

    async def buggy(prompt_id: str) -> None:
        await gate.wait()
        raise ValueError("a bug")

    def prepare(session: FakeSession) -> None:
        session.echoes = False
        session.interrupt = buggy  # type: ignore[method-assign]  # a fault on order

    async def collect() -> None:
        await wait_all_tasks_blocked()  # only when the actor says goodbye
        told.extend(await query.ended())

    query.harness.prepare = prepare
    with pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        async with trio.open_nursery() as actors:
            await actors.start(query.actor.run)
            await query.inbox.send(turn(1))
            await wait_all_tasks_blocked()
            await query.inbox.send(Interrupt("p1"))
            await wait_all_tasks_blocked()
            query.harness.of(ROOM).end()
            await wait_all_tasks_blocked()  # nobody takes it yet
            gate.set()
            nursery.start_soon(collect)
    await wait_all_tasks_blocked()

    assert told == ["p1"]


async def test_an_interrupt_of_a_turn_that_nobody_has_in_hand_is_answered_by_its_end(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 4.4: after a crash of the actor a run is not held open for ever."""
    query = Query()
    await nursery.start(query.actor.run)
    await query.inbox.send(Interrupt("p0"))

    assert await query.outbox.receive() == NotInHand("p0")


async def test_a_turn_begun_while_a_dead_session_still_closes_is_answered(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 10.2: a death between turns is nobody's end."""
    query = Query()
    query.harness.closing_s = 5.0
    await nursery.start(query.actor.run)
    await query.inbox.send(turn(1))
    assert ends(await query.next_end()) == ["p1"]
    query.harness.of(ROOM).die()
    await wait_all_tasks_blocked()
    await query.inbox.send(turn(2))

    last = await query.next_end()
    assert isinstance(last, HarnessSaid)
    assert last.said[-1] == TurnEnded(prompt_id="p2", status="completed")


async def test_a_turn_begun_while_a_deaf_session_still_closes_is_answered(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 4.4: after both budgets the next turn begins, and waits for the process to go."""
    query = Query()
    query.harness.closing_s = 5.0

    def deaf(session: FakeSession) -> None:
        session.echoes = session.obeys = False

    query.harness.prepare = deaf
    await nursery.start(query.actor.run)
    await query.inbox.send(turn(1))
    await wait_all_tasks_blocked()
    await query.inbox.send(Interrupt("p1"))
    assert await query.next_end() == SessionEnded(prompt_id="p1")
    query.harness.prepare = lambda session: None
    await query.inbox.send(turn(2))

    last = await query.next_end()
    assert isinstance(last, HarnessSaid)
    assert ends(last) == ["p2"]


async def test_interrupted_at_any_step_a_turn_ends_at_once(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 4.2: also in the moment in which its session has just opened."""
    for steps in range(1, 40):
        query, now = Query(), trio.Event()
        query.harness.prepare = quiet
        await nursery.start(query.actor.run)
        with After(steps, now.set), trio.move_on_after(1):
            await query.inbox.send(turn(1))
            await now.wait()
        await query.inbox.send(Interrupt("p1"))
        began = trio.current_time()

        assert ends(await query.next_end()) == ["p1"], steps
        assert trio.current_time() - began < 1


@pytest.mark.parametrize("interrupted", [False, True])
async def test_cancelled_anywhere_it_tells_the_end_of_the_turn_once_and_leaves_no_session(
    interrupted: bool, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 4.9."""
    for steps in range(1, 80):
        query, told, taken = Query(), list[str](), list[str]()
        query.harness.prepare = quiet

        async def collect(query: Query = query, told: list[str] = told) -> None:
            told.extend(await query.ended())

        nursery.start_soon(collect)
        async with trio.open_nursery() as actors:
            await actors.start(query.actor.run)
            with After(steps, actors.cancel_scope.cancel):
                await query.inbox.send(turn(1))
                taken.append("p1")
                await wait_all_tasks_blocked()
                query.harness.of(ROOM).say(TextSaid("b", "word"))
                if interrupted:
                    await query.inbox.send(Interrupt("p1"))
                else:
                    query.harness.of(ROOM).end()
                await wait_all_tasks_blocked()
            actors.cancel_scope.cancel()
        await wait_all_tasks_blocked()

        assert told == taken, steps
        assert query.harness.live == []


@pytest.mark.parametrize("steps", range(1, 16))
async def test_a_place_that_comes_together_with_an_interrupt_is_given_back(
    steps: int, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 14.4: at whatever step; else it is nobody's, and with one place all would wait."""
    places = Places(working=1)
    before = places.place()
    assert before.try_work()
    query = Query(places)
    nursery.start_soon(query.actor.run)
    await query.inbox.send(turn(1))
    await wait_all_tasks_blocked()

    with After(steps, before.leave):
        await query.inbox.send(Interrupt("p1"))
        await query.next_end()
    before.leave()
    await wait_all_tasks_blocked()

    held = places.statistics()
    assert held.sessions == len(query.harness.live)
    assert places.place().try_work() == (not query.harness.live)


async def test_a_thread_that_ends_leaves_no_place_behind(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 14.4: given at the moment of the end, for another place's session too."""
    for steps in range(1, 16):
        places = Places(working=1)
        before = places.place()
        assert before.try_work()
        query = Query(places)
        async with trio.open_nursery() as thread:
            thread.start_soon(query.actor.run)
            await query.inbox.send(turn(1))
            await wait_all_tasks_blocked()
            with After(steps, thread.cancel_scope.cancel):
                before.leave()
                await wait_all_tasks_blocked()
            thread.cancel_scope.cancel()

        assert places.statistics() == Census()
