"""When a session waits, and when it is given up: only for what may be its own fault."""

from typing import Literal

from actors.harness import TurnEnded
from actors.health import BACKOFF_CAP_S, Health

Status = Literal["completed", "interrupted", "failed"]


def ended(status: Status, code: str | None = None, *, tainted: bool = False) -> TurnEnded:
    return TurnEnded(prompt_id="p", status=status, code=code, tainted=tainted)


BAD = ended("failed", "bad_request", tainted=True)


def given_up(health: Health, *turns: TurnEnded, resumed: bool = True) -> list[bool]:
    return [health.ended(turn, resumed=resumed) for turn in turns]


def test_the_second_failure_that_is_alike_is_one_too_many() -> None:
    """Field case 7.6."""
    assert given_up(Health(), BAD, BAD) == [False, True]


def test_another_failure_or_a_success_in_between_begins_the_count_anew() -> None:
    other = ended("failed", "context_too_long", tainted=True)
    assert given_up(Health(), BAD, other, BAD, other) == [False] * 4
    assert given_up(Health(), BAD, ended("completed"), BAD) == [False] * 3
    assert given_up(Health(), BAD, ended("failed", "rate_limited"), BAD) == [False] * 3


def test_an_interrupt_proves_nothing() -> None:
    assert given_up(Health(), BAD, ended("interrupted"), BAD) == [False, False, True]


def test_what_is_nobodys_fault_is_never_the_sessions() -> None:
    """Field case 7.6: a limit, an overload, no login."""
    assert not any(given_up(Health(), *[ended("failed", "rate_limited")] * 9))


def test_a_session_that_was_not_resumed_is_not_given_up() -> None:
    """A model that is configured wrongly would make each conversation anew for nothing."""
    assert not any(given_up(Health(), *[BAD] * 9, resumed=False))


def test_deaths_in_a_row_wait_ever_longer_up_to_a_bound() -> None:
    """Field case 10.2."""
    health, waits = Health(), list[float]()
    for _ in range(2_000):
        waits.append(health.wait_s)
        health.died()

    assert waits[:5] == [0, 0, 0.5, 1, 2]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF_CAP_S
    health.ended(ended("completed"), resumed=True)
    assert health.wait_s == 0
