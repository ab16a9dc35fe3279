"""The stage tells whoever steps on it what went wrong, in the step or behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from tests.chaos.stage import Stage


class Small:
    """A world with a task that can die."""

    def __init__(self) -> None:
        self.steps, self.crash, self.closed = 0, trio.Event(), False

    async def live(self) -> None:
        await self.crash.wait()
        raise RuntimeError("a task of the world died")

    async def step(self) -> None:
        await trio.lowlevel.checkpoint()
        self.steps += 1

    async def die(self) -> None:
        self.crash.set()
        await trio.sleep_forever()


worlds: list[Small] = []


@asynccontextmanager
async def small() -> AsyncIterator[Small]:
    world = Small()
    worlds.append(world)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.live)
            yield world
            nursery.cancel_scope.cancel()
    finally:
        world.closed = True


@asynccontextmanager
async def stillborn() -> AsyncIterator[Small]:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("it does not open")
    yield Small()


async def fail(world: Small) -> None:
    await trio.lowlevel.checkpoint()
    raise AssertionError(world.steps)


def test_a_world_lives_on_between_steps_also_after_a_failed_one() -> None:
    stage = Stage(small)
    stage.do(Small.step)
    stage.do(Small.step)
    with pytest.raises(AssertionError, match="2"):
        stage.do(fail)
    stage.do(Small.step)
    stage.close()

    assert worlds[-1].steps == 3
    assert worlds[-1].closed


def test_a_world_that_dies_tells_the_step_why_and_every_later_one_finds_it_dead() -> None:
    stage = Stage(small)

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="task of the world")):
        stage.do(Small.die)
    stage.close()
    with pytest.raises(AssertionError, match="has ended"):
        stage.do(Small.step)

    assert worlds[-1].closed


def test_a_world_that_does_not_open_says_so() -> None:
    with pytest.raises(RuntimeError, match="does not open"):
        Stage(stillborn)
