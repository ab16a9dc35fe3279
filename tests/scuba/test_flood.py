"""Flood, in whatever order Hypothesis thinks of: bounded, and every item accounted for."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scuba.flood import Flood


class FloodRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.flood = Flood[str](most=3, window_s=10.0, kinds=3)
        self.now = 0.0
        self.offered = self.told = 0
        self.passed: list[tuple[float, str]] = []

    def release(self, now: float) -> None:
        for item, count in self.flood.due(now):
            assert count > 0
            assert item.startswith("k")
            self.told += count

    @rule(kind=st.sampled_from([f"k{number}" for number in range(8)]))
    def offer(self, kind: str) -> None:
        self.release(self.now)
        self.offered += 1
        if self.flood.take(kind, kind, self.now):
            self.told += 1
            self.passed.append((self.now, kind))

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def few_kinds_are_remembered(self) -> None:
        assert len(self.flood._windows) <= 4

    def teardown(self) -> None:
        self.release(float("inf"))
        assert self.told == self.offered


TestFloodRules = FloodRules.TestCase


def test_the_first_always_passes_and_the_window_bounds_the_rest() -> None:
    flood = Flood[str](most=2, window_s=60.0)
    passed = [flood.take("kind", str(number), now=float(number)) for number in range(60)]

    assert passed == [True, True] + [False] * 58
    assert flood.due(59.9) == []
    assert flood.due(60.0) == [("59", 58)]
    assert flood.take("kind", "60", 60.0)
