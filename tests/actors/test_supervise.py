"""supervise: a crashed actor comes back, but not for ever."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from actors.supervise import supervise


class Crash(Exception):
    pass


def failing(times: int, alive_s: float = 0.0) -> tuple[Callable[[], Awaitable[None]], list[float]]:
    """An actor that crashes `times` times, each after `alive_s`; and when it was started."""
    starts: list[float] = []

    async def start() -> None:
        starts.append(trio.current_time())
        await trio.sleep(alive_s)
        if len(starts) <= times:
            raise Crash(f"number {len(starts)}")

    return start, starts


async def test_a_plain_return_is_final(autojump_clock: MockClock) -> None:
    start, starts = failing(0)

    assert await supervise(start, name="calm")
    assert starts == [0.0]


async def test_restarts_back_off(autojump_clock: MockClock) -> None:
    start, starts = failing(3)

    assert await supervise(start, name="shaky")
    assert starts == [0.0, 0.5, 1.5, 3.5]


async def test_one_crash_too_many_is_raised(autojump_clock: MockClock) -> None:
    """Field case 10.3: a crash loop is bounded."""
    start, starts = failing(99)

    with pytest.raises(Crash, match="number 4"):
        await supervise(start, name="hopeless")
    assert len(starts) == 4


async def test_one_crash_too_many_parks(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 10.3: one bad thread does not take the others down."""
    start, _ = failing(99)

    assert not await supervise(start, name="hopeless", park=True, extra={"thread_id": "thr_1"})

    last = caplog.records[-1]
    assert last.levelno == logging.ERROR
    assert last.exc_info is not None
    said = {name: vars(last)[name] for name in ("actor", "thread_id", "crashes")}
    assert said == {"actor": "hopeless", "thread_id": "thr_1", "crashes": 4}


async def test_crashes_far_apart_are_forgiven(autojump_clock: MockClock) -> None:
    start, starts = failing(20, alive_s=30.0)

    assert await supervise(start, name="slow", period_s=60.0)
    assert len(starts) == 21


async def test_being_cancelled_is_no_crash(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.move_on_after(5) as scope:
        await supervise(partial(trio.sleep, 60), name="busy")

    assert scope.cancelled_caught
    assert caplog.records == []


async def test_the_pause_before_a_restart_can_be_cancelled(autojump_clock: MockClock) -> None:
    start, starts = failing(99)
    with trio.move_on_after(0.25):
        await supervise(start, name="shaky")

    assert starts == [0.0]
    assert trio.current_time() == 0.25
