"""Places: never more than there are, first come first served, and who rests makes room."""

from collections.abc import Callable

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.places import Place, Places


def nothing() -> None:
    """Make no room, as a session that takes long to close."""


async def test_who_waits_is_served_in_the_order_it_came(autojump_clock: MockClock) -> None:
    """Field case 10.6: a fair queue."""
    places, served = Places(working=1, processes=9), list[int]()

    async def work(number: int) -> None:
        place = places.place()
        await trio.sleep(number)
        await place.work()
        served.append(number)
        await trio.sleep(100)
        place.leave()

    async with trio.open_nursery() as nursery:
        for number in (3, 1, 2, 4):
            nursery.start_soon(work, number)

    assert served == [1, 2, 3, 4]
    assert trio.current_time() == 401


async def test_who_waits_for_a_person_holds_nobody_up() -> None:
    places = Places(working=1, processes=2)
    first, second = places.place(), places.place()
    assert first.try_work()
    assert not second.try_work()

    first.park()
    assert second.try_work()
    first.unpark()

    assert (first.state, second.state) == ("works", "works")
    assert not places.place().try_work()


async def test_processes_have_a_cap_of_their_own() -> None:
    places = Places(working=9, processes=1)
    first, second = places.place(), places.place()
    assert first.try_work()
    first.park()

    assert not second.try_work()
    first.leave()
    assert second.try_work()


async def test_who_rests_longest_makes_room_and_only_when_somebody_needs_it(
    nursery: trio.Nursery,
) -> None:
    places, left = Places(working=9, processes=3), list[str]()
    resting = {name: places.place() for name in "abc"}

    def leaving(name: str) -> Callable[[], None]:
        return lambda: left.append(name)

    for name in "bac":
        assert resting[name].try_work()
        resting[name].rest(leaving(name))
    assert left == []

    for _ in range(2):
        nursery.start_soon(places.place().work)
        await wait_all_tasks_blocked()
    assert left == ["b", "a"]

    assert resting["c"].try_work() is False  # the two who came before
    resting["b"].leave()
    resting["a"].leave()
    assert resting["c"].try_work()


async def test_no_process_ends_for_who_waits_for_a_turn_to_end_anyway(
    nursery: trio.Nursery,
) -> None:
    places, left = Places(working=1, processes=2), list[str]()
    working, resting = places.place(), places.place()
    assert resting.try_work()
    resting.rest(lambda: left.append("rested"))
    assert working.try_work()

    nursery.start_soon(places.place().work)
    await wait_all_tasks_blocked()
    assert left == []

    working.leave()
    assert left == []


async def test_who_gives_up_waiting_leaves_no_trace(autojump_clock: MockClock) -> None:
    places = Places(working=1, processes=9)
    first, second, third = (places.place() for _ in range(3))
    assert first.try_work()
    with trio.move_on_after(1):
        await second.work()
    assert second.state is None

    first.leave()

    assert third.try_work()


@pytest.mark.parametrize("state", ["works", "parked", "rests"])
async def test_leaving_twice_gives_back_once(state: str) -> None:
    places = Places(working=2, processes=2)
    place = places.place()
    assert place.try_work()
    if state == "parked":
        place.park()
    elif state == "rests":
        place.rest(nothing)

    place.leave()
    place.leave()

    assert places.place().try_work()
    assert places.place().try_work()
    assert not places.place().try_work()


class PlacesRules(RuleBasedStateMachine):
    """Whatever sessions do, both limits hold, and nobody is passed."""

    WORKING, PROCESSES = 2, 3

    def __init__(self) -> None:
        super().__init__()
        self.places = Places(working=self.WORKING, processes=self.PROCESSES)
        self.all = [self.places.place() for _ in range(6)]
        self.asked_to_leave: list[Place] = []
        self.extra = 0
        """Work beyond the limit, since a person's answer does not wait."""

    def count(self, *states: str) -> int:
        return sum(place.state in states for place in self.all)

    @rule(number=st.integers(0, 5))
    def work(self, number: int) -> None:
        place = self.all[number]
        if place.state in (None, "rests"):
            may = self.count("works") < self.WORKING and (
                place.state == "rests" or self.count(*ALIVE) < self.PROCESSES
            )
            assert place.try_work() is may

    @rule(number=st.integers(0, 5))
    def park(self, number: int) -> None:
        self.all[number].park()

    @rule(number=st.integers(0, 5))
    def unpark(self, number: int) -> None:
        place = self.all[number]
        place.unpark()
        assert place.state != "parked"

    @rule(number=st.integers(0, 5))
    def rest(self, number: int) -> None:
        place = self.all[number]
        place.rest(lambda: self.asked_to_leave.append(place))

    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        self.all[number].leave()
        assert self.all[number].state is None

    @precondition(lambda self: self.count("parked") == 0)
    @invariant()
    def no_more_processes_than_there_may_be(self) -> None:
        assert self.count(*ALIVE) <= self.PROCESSES

    @invariant()
    def nobody_leaves_while_nobody_waits(self) -> None:
        assert not self.asked_to_leave


ALIVE = ("works", "parked", "rests", "leaves")
TestPlacesRules = PlacesRules.TestCase
TestPlacesRules.settings = settings(max_examples=60, stateful_step_count=30)
