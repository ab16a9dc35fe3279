"""A bot whose every part is broken in every way answers each message exactly once.

A round is drawn by its seed, and what was done is printed when it fails; real processes never do
the same thing twice, so a round is not shrunk. `just chaos 20` runs twenty rounds of each test.
"""

import os
from collections.abc import Mapping
from random import Random

import pytest
import trio

from tests.chaos.bots.checker import check_below, check_deeds, check_thread
from tests.chaos.bots.world import FAULTS, World, open_world
from tests.kit.person import summary
from tests.kit.program import Start, private_place

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))
SEED = os.environ.get("CHAOS_SEED")
FAULTS_A_ROUND = 95
"""Three rounds of CI's make more than three hundred."""
RARE = {
    "kill the bot": 8,
    "kill the bot while it starts": 2,
    "restart the bot": 3,
    "kill a CLI": 6,
    "kill the server": 3,
    "fill the disk": 3,
    "freeze the bot": 3,
    "freeze a CLI": 4,
    "freeze the server": 3,
    "turn the clock": 3,
}
"""How often in a round; the faults of the network fill the rest."""
RARE_WITH_THE_REAL_CLI = {"kill the bot": 3, "restart the bot": 1, "kill a CLI": 3}
FAULTS_WITH_THE_REAL_CLI = 20
QUIET_S = 120.0


def drawn(random: Random, rare: Mapping[str, int], count: int) -> list[str]:
    """Return the faults of a round, in order."""
    faults = [name for name, times in rare.items() for _ in range(times)]
    common = sorted(set(FAULTS) - set(RARE))
    faults += [random.choice(common) for _ in range(count - len(faults))]
    random.shuffle(faults)
    return faults


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Async generator .httpx:ResourceWarning")  # cut off in a call
@pytest.mark.parametrize("number", range(3 * ROUNDS))
async def test_each_message_is_answered_once_whatever_breaks(start: Start, number: int) -> None:
    """Nothing lost, nothing doubled, every run ended, nothing left behind."""
    await one_round(start, RARE, FAULTS_A_ROUND)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Async generator .httpx:ResourceWarning")
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_the_real_cli_is_no_exception(start: Start, number: int) -> None:
    """A smaller round, because each of its starts takes half a second."""
    await one_round(start, RARE_WITH_THE_REAL_CLI, FAULTS_WITH_THE_REAL_CLI, real_cli=True)


async def one_round(
    start: Start, rare: Mapping[str, int], count: int, *, real_cli: bool = False
) -> None:
    seed = int(SEED) if SEED else int.from_bytes(os.urandom(4), "big")
    random = Random(seed)
    with private_place() as place:
        async with open_world(start, place, random, real_cli=real_cli) as world:
            try:
                async with trio.open_nursery() as people:
                    for room in world.rooms:
                        people.start_soon(room.write)
                        people.start_soon(room.decide)
                    for fault in drawn(random, rare, count):
                        await world.do(fault)
                    people.cancel_scope.cancel()
                await world.calm()
                await quiet(world)
                await judge(world, count)
            except BaseException:
                ends = [summary(room.seen) for room in world.rooms]
                told = [
                    f"CHAOS_SEED={seed}; done: {', '.join(world.plan)}",
                    *ends,
                    world.bot.told(6000),
                ]
                print("\n".join(told))  # noqa: T201
                raise


async def quiet(world: World) -> None:
    """Return when every message is dealt with and no run is open; people go on deciding."""
    async with trio.open_nursery() as people:
        for room in world.rooms:
            people.start_soon(room.decide)
        found = [""]
        with trio.move_on_after(QUIET_S):
            while found := await unfinished(world):  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.5)
        people.cancel_scope.cancel()
    assert not found


async def unfinished(world: World) -> list[str]:
    found: list[str] = []
    for room in world.rooms:
        said = [message.seq for message in room.messages]
        found += check_thread(await room.look(), world.apart.bot_id, said)
    return found or await faulty_below(world)


async def faulty_below(world: World) -> list[str]:
    logs = [log for room in world.rooms for log in await room.look_below()]
    return [fault for log in logs for fault in check_below(log, world.apart.bot_id)]


async def judge(world: World, count: int) -> None:
    stopped = await world.bot.stop()
    assert stopped.code == 0, world.bot.told()
    assert not stopped.left
    assert not list((world.apart.place / "bot" / "sessions").iterdir())
    logs = {room.talk.thread_id: await room.talk.events() for room in world.rooms}
    found = check_deeds(world.ledger, logs, world.apart.bot_id)
    for room in world.rooms:
        said = [message.seq for message in room.messages]
        found += check_thread(logs[room.talk.thread_id], world.apart.bot_id, said)
    found += await faulty_below(world)
    assert not found
    assert sum(world.done.values()) == count
    assert sum(len(room.messages) for room in world.rooms) > count / 2
