"""Unwritten: the newest of each cursor, at most once a second, whatever Hypothesis thinks of."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scuba.server.store.consumer_cursors import CursorKey, Mark
from scuba.server.store.unwritten import PERIOD_S, Unwritten

KEYS = st.sampled_from([CursorKey("t", "p", name) for name in "abc"])


class UnwrittenRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unwritten, self.now = Unwritten(), 0.0
        self.newest: dict[CursorKey, int] = {}
        self.stored: dict[CursorKey, int] = {}
        self.written_at: dict[CursorKey, float] = {}

    @rule(key=KEYS, seq=st.integers(1, 9))
    def put(self, key: CursorKey, seq: int) -> None:
        if seq > self.newest.get(key, 0):
            self.unwritten.put(key, Mark(seq, "now"))
            self.newest[key] = seq

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=KEYS)
    def written_elsewhere(self, key: CursorKey) -> None:
        self.unwritten.note_written(key, self.now)
        self.written_at[key] = self.now

    @rule(works=st.booleans(), most=st.integers(1, 3), overtaken=st.booleans())
    def write(self, works: bool, most: int, overtaken: bool) -> None:
        due = self.unwritten.take(self.now, most)
        for key, mark in due:
            assert self.written_at.get(key, -9.0) + PERIOD_S <= self.now
            self.written_at[key] = self.now
            if works:
                self.stored[key] = max(mark.seq, self.stored.get(key, 0))
        if due and overtaken:
            key, mark = due[0]
            self.newest[key] = mark.seq + 10
            self.unwritten.put(key, Mark(mark.seq + 10, "later"))
        if works:
            self.unwritten.settle(due)

    @rule()
    def everything_is_due_after_a_second(self) -> None:
        self.now += PERIOD_S
        due = self.unwritten.take(self.now, 100)
        assert len(due) == len(self.unwritten)
        for key, _ in due:
            self.written_at[key] = self.now
        assert self.unwritten.recent == len(due)

    @invariant()
    def the_newest_is_stored_or_waits(self) -> None:
        for key, seq in self.newest.items():
            waiting = self.unwritten.get(key)
            assert seq == (self.stored.get(key) if waiting is None else waiting.seq)
        assert len(self.unwritten) <= len(self.newest)


TestUnwritten = UnwrittenRules.TestCase
TestUnwritten.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
