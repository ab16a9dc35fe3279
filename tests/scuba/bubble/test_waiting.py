"""Backoff, Patience, Outage: how long to wait, who waits, and what the log says about it."""

import logging

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from actors.ports import Unavailable
from scuba.bubble.backoff import CAP_S, FIRST_S, Backoff
from scuba.bubble.outage import Outage
from scuba.bubble.patience import AT_ONCE, Patience


@given(draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=2000))
def test_each_wait_is_drawn_below_a_limit_that_doubles_up_to_the_cap(draws: list[float]) -> None:
    """Field case 8.4."""
    turns = iter(draws)
    backoff = Backoff(lambda: next(turns))

    for count, draw in enumerate(draws):
        assert backoff.failed() == pytest.approx(draw * min(CAP_S, FIRST_S * 2.0 ** min(count, 99)))


def test_the_server_is_never_asked_sooner_than_it_said() -> None:
    assert Backoff(lambda: 0.0).failed(7.0) == 7.0


def test_only_a_minute_of_health_forgets_the_failures() -> None:
    backoff = Backoff(lambda: 1.0)
    backoff.failed()
    backoff.lived(59.9)

    assert backoff.failed() == 2 * FIRST_S
    backoff.lived(60.0)
    assert backoff.failed() == FIRST_S


async def test_an_hour_of_failures_is_an_hour_of_lines_with_counts(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 12.3: first and recovery always, in between once a minute."""
    caplog.set_level(logging.INFO)
    outage = Outage(logging.getLogger("test"), "the server")
    outage.recovered()
    for _ in range(50 * 360):
        outage.failed("refused")
        await trio.sleep(0.2)
    outage.recovered()
    outage.failed("again")

    lines = caplog.messages
    assert lines[0] == "the server failed: refused"
    assert 59 <= len(lines) <= 63
    assert "has failed 301 times in 60 s" in lines[1]
    assert "works again after 18000 failures" in lines[-2]
    assert lines[-1] == "the server failed: again"


async def test_a_thousand_threads_make_no_storm(autojump_clock: MockClock) -> None:
    """Field case 8.4: all wait for one sick server, few ask it, all are answered in the end."""
    patience, calls, well = Patience(), 0, trio.Event()
    answers: list[int] = []

    async def call() -> int:
        nonlocal calls
        calls += 1
        if not well.is_set():
            raise Unavailable("502")
        return 1

    async def ask() -> None:
        answers.append(await patience.until_answered(call))

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(ask)
        await trio.sleep(1800)
        asked_while_down = calls
        well.set()
        well_since = trio.current_time()

    assert asked_while_down < AT_ONCE * 1800 / 8
    assert len(answers) == 1000
    assert trio.current_time() - well_since <= CAP_S
