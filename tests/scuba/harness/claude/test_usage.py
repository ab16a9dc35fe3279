"""Meter: a turn's share of what the CLI counts for its process."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.harness import TurnEnded, Used
from scuba.harness.claude.frames import Frame, Result
from scuba.harness.claude.mapping import Mapper
from scuba.harness.claude.usage import Meter
from tests.kit.claude_frames import frame, life, result, state, text, whole


def of(total_cost_usd: object, **models: object) -> Result:
    return Result(total_cost_usd=total_cost_usd, model_usage=models, duration_ms=1500)


def test_costs_are_what_was_added_since_the_turn_before() -> None:
    meter = Meter()
    meter.model = "m"
    big, small = {"inputTokens": 3, "outputTokens": 5}, {"cacheReadInputTokens": 7}
    meter.heard(of(0.25, big=big))
    first = meter.take()
    meter.heard(of(0.25, big=big))
    meter.heard(of(1.0, big=big | {"cacheCreationInputTokens": 9}, small=small))
    second = meter.take()

    assert first == Used(model="m", input_tokens=3, output_tokens=5, cost_usd=0.25, duration_s=1.5)
    assert second == Used(
        model="m", cache_read_tokens=7, cache_write_tokens=9, cost_usd=0.75, duration_s=3.0
    )
    assert meter.take() is None
    meter.heard(of(0.5))  # a sum that shrank: of this process it cannot be
    assert meter.take() is None


NUMBERS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.none() | st.lists(NUMBERS))))
def test_whatever_is_told_nothing_is_negative_and_the_whole_is_the_highest_total(
    told: list[tuple[object, object, object]],
) -> None:
    """Field case 9.7."""
    meter, spent_usd = Meter(), 0.0
    for cost, count, odd in told:
        models = {"m": {"inputTokens": count}, "odd": odd}
        meter.heard(of(cost, **models) if odd is None else Result(model_usage=odd))
        used = meter.take() or Used(model=None)
        assert used.input_tokens >= 0
        assert used.cost_usd >= 0
        spent_usd += used.cost_usd

    assert math.isfinite(spent_usd)


@pytest.mark.parametrize("subtype", ["success", "error_max_budget_usd"])
def test_it_is_said_just_before_the_end_of_its_turn(subtype: str) -> None:
    mapper = Mapper()
    mapper.begin("p1", "u1")
    is_error = subtype != "success"
    ends = result("u1", subtype=subtype, total_cost_usd=0.5, is_error=is_error)
    frames = [
        whole("m1", text("hi")),
        frame("result", total_cost_usd=0.25, num_turns=0),
        ends,
        state("idle"),
    ]
    (*_, used, ended) = mapper.map(frames, 0.0)

    assert isinstance(used, Used)
    assert (used.cost_usd, used.model) == (0.5, "m")
    assert isinstance(ended, TurnEnded)
    assert ended.closes == is_error


def task(subtype: str, **fields: object) -> Frame:
    return frame("system", subtype=subtype, **fields)


def test_a_session_for_one_turn_is_kept_for_the_tasks_it_left_and_for_whoever_waits() -> None:
    """Closed after the last turn in hand, once nothing runs in background."""
    mapper = Mapper(one_turn=True)
    mapper.begin("p1", "u1")
    running = task("background_tasks_changed", tasks=[{"task_id": "t1"}])
    gone = task("background_tasks_changed", tasks=[])
    first = mapper.map([state("running"), life("u1", "started"), running, result("u1")], 0.0)
    said = mapper.map([task("task_notification", task_id="t1", status="completed"), gone], 0.0)
    said += mapper.map([whole("m2", text("it is done"))], 0.0)
    mapper.begin("p2", "u2")
    woken = result("", origin={"kind": "task-notification"})
    said += mapper.map([woken], 0.0)
    last = mapper.map([life("u2", "started"), result("u2"), state("idle")], 0.0)
    ends = [item for item in (*first, *said, *last) if isinstance(item, TurnEnded)]

    assert [ended.closes for ended in ends] == [False, False, True]
    assert ends[-1].prompt_id == "p2"
