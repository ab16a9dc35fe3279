"""ApprovalActor: takes questions while nobody takes its answers, and says goodbye."""

from math import inf

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.approval import GOODBYE_S, UNANSWERED, WITHDRAWN, ApprovalActor, ApprovalOutcome
from actors.census import Census
from actors.harness import Decision
from actors.messages import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalInbox,
    ApprovalRejected,
    ApprovalSettled,
    RunEnded,
)

BOT, ADA = "bot-scuba", "user-ada"
YES = Decision(allowed=True)


def asked(call: str) -> ApprovalAsked:
    return ApprovalAsked(run_id="r1", tool_call_id=call)


def answered(call: str) -> ApprovalAnswered:
    return ApprovalAnswered(
        run_id="r1",
        tool_call_id=call,
        principal_id=ADA,
        role="owner",
        kind="approval",
        decision=YES,
    )


def settled(call: str, decision: Decision = YES) -> ApprovalSettled:
    return ApprovalSettled(run_id="r1", tool_call_id=call, decision=decision)


class Ends:
    """Both channels of an actor without any buffer, and the actor."""

    def __init__(self, expiry_s: float = inf) -> None:
        self.asks, inbox = trio.open_memory_channel[ApprovalInbox](0)
        outbox, self.outcomes = trio.open_memory_channel[ApprovalOutcome](0)
        self.actor = ApprovalActor(inbox, outbox, BOT, expiry_s)


async def test_a_parked_call_waits_for_hours_and_is_then_settled(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    ends = Ends()
    await nursery.start(ends.actor.run)
    await ends.asks.send(asked("c1"))
    with trio.move_on_after(12 * 3600) as waited:
        await ends.outcomes.receive()
    assert waited.cancelled_caught

    await ends.asks.send(answered("c1"))

    assert await ends.outcomes.receive() == settled("c1")


async def test_whoever_asks_is_never_held_up_by_unread_answers(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The thread may wait for this inbox just when it does not read its own."""
    ends = Ends()
    await nursery.start(ends.actor.run)

    with trio.fail_after(1):
        for n in range(100):
            await ends.asks.send(asked(f"c{n}"))
            await ends.asks.send(answered(f"c{n}"))

    assert [await ends.outcomes.receive() for _ in range(100)] == [
        settled(f"c{n}") for n in range(100)
    ]


async def test_a_call_expires_in_its_own_time_and_none_that_was_settled_is_waited_for(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 14.4: of a thousand calls that were answered nothing is kept, no task either."""
    ends = Ends(expiry_s=3600)
    await nursery.start(ends.actor.run)
    await wait_all_tasks_blocked()
    tasks = trio.lowlevel.current_statistics().tasks_living
    for n in range(1_000):
        await ends.asks.send(asked(f"c{n}"))
        await ends.asks.send(answered(f"c{n}"))
        await ends.outcomes.receive()
    await ends.asks.send(asked("late"))
    await trio.sleep(1800)
    await ends.asks.send(asked("later"))
    await wait_all_tasks_blocked()

    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert ends.actor.statistics().calls == 1_002
    for call, at in (("late", 3600), ("later", 5400)):
        rejected, outcome = [await ends.outcomes.receive() for _ in range(2)]
        assert isinstance(rejected, ApprovalRejected)
        assert outcome == settled(call, UNANSWERED)
        assert trio.current_time() == pytest.approx(at)
    await ends.asks.send(RunEnded("r1"))
    await wait_all_tasks_blocked()
    assert ends.actor.statistics() == Census()


async def collect(ends: Ends, into: list[ApprovalOutcome]) -> None:
    into.extend([outcome async for outcome in ends.outcomes])


@pytest.mark.parametrize("how", ["cancelled", "left alone"])
async def test_on_the_way_out_the_settled_arrives_and_the_open_is_withdrawn(
    how: str, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Whether it is cancelled while it waits to send, or the last sender closes."""
    ends, got = Ends(), list[ApprovalOutcome]()
    async with trio.open_nursery() as actors:
        await actors.start(ends.actor.run)
        for message in (asked("c1"), asked("c2"), answered("c1")):
            await ends.asks.send(message)
        await wait_all_tasks_blocked()
        if how == "cancelled":
            actors.cancel_scope.cancel()
        else:
            ends.asks.close()
        nursery.start_soon(collect, ends, got)
    await wait_all_tasks_blocked()

    assert got == [settled("c1"), settled("c2", WITHDRAWN)]


async def test_a_crash_leaves_nobody_waiting(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Field case 10.3: a fault in the registry itself; the harness still gets its word."""
    ends, got = Ends(), list[ApprovalOutcome]()
    nursery.start_soon(collect, ends, got)

    with pytest.RaisesGroup(TypeError, flatten_subgroups=True):
        async with trio.open_nursery() as actors:
            await actors.start(ends.actor.run)
            await ends.asks.send(asked("c1"))
            await ends.asks.send(ApprovalAsked(run_id="r1", tool_call_id=["not hashable"]))  # type: ignore[arg-type]  # the fault
    await wait_all_tasks_blocked()

    assert got == [settled("c1", WITHDRAWN)]


async def test_goodbye_to_somebody_who_does_not_listen_is_short(
    autojump_clock: MockClock,
) -> None:
    ends = Ends()
    async with trio.open_nursery() as actors:
        await actors.start(ends.actor.run)
        await ends.asks.send(asked("c1"))
        actors.cancel_scope.cancel()

    assert trio.current_time() == pytest.approx(GOODBYE_S)


async def test_goodbye_to_nobody_takes_no_time(autojump_clock: MockClock) -> None:
    ends = Ends()
    ends.outcomes.close()
    async with trio.open_nursery() as actors:
        await actors.start(ends.actor.run)
        await ends.asks.send(asked("c1"))
        await ends.asks.send(answered("c1"))
        await wait_all_tasks_blocked()
        actors.cancel_scope.cancel()

    assert trio.current_time() == 0
    with pytest.raises(trio.BrokenResourceError):
        await ends.asks.send(asked("c2"))
