"""Pending: what leaves never changes, text arrives whole and in order, whatever is refused."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.events import (
    Agent,
    Draft,
    PartPayload,
    RunFinishedPayload,
    RunStartedPayload,
    TextDelta,
    TextEnd,
    TextStart,
    Trigger,
    part,
)
from actors.pending import MERGED_CHARS, Pending
from actors.ports import Keyed

RUN = "run_1"


def delta(text: str, id_: str = "t1") -> Draft:
    return part(RUN, TextDelta(id=id_, delta=text))


def text_of(batch: list[Keyed]) -> str:
    chunks = [k.draft.payload.chunk for k in batch if isinstance(k.draft.payload, PartPayload)]
    return "".join(chunk.delta for chunk in chunks if isinstance(chunk, TextDelta))


def test_adjacent_deltas_of_one_part_leave_as_one_event() -> None:
    pending = Pending()
    pending.add([part(RUN, TextStart(id="t1")), delta("a"), delta("b")])
    pending.add([delta("c"), part(RUN, TextEnd(id="t1")), delta("x", "t2"), delta("y", "t3")])

    batch = pending.hand_out()

    assert [keyed.key for keyed in batch] == [f"{RUN}/{n}" for n in range(5)]
    assert batch[1].draft == delta("abc")


def test_what_was_handed_out_takes_in_nothing_more() -> None:
    pending = Pending()
    pending.add([delta("a")])
    first = pending.hand_out()
    pending.add([delta("b")])

    assert pending.hand_out() == first
    assert pending.landed() == first
    assert [keyed.draft for keyed in pending.hand_out()] == [delta("b")]


def test_a_merged_delta_stays_far_below_the_event_limit() -> None:
    pending = Pending()
    pending.add([delta("x" * 1000)] * 100)

    sizes = [len(text_of([keyed])) for keyed in pending.hand_out()]

    assert sum(sizes) == 100_000
    assert max(sizes) <= MERGED_CHARS


def test_what_is_away_leaves_before_what_came_later_run_by_run() -> None:
    pending = Pending()
    pending.add([delta("a"), Draft("run_finished", RUN, RunFinishedPayload(status="completed"))])
    pending.add([Draft("run_started", "run_2", RunStartedPayload())])
    away = {keyed.key: keyed for keyed in pending.put_away()}
    pending.add([Draft("run_finished", "run_2", RunFinishedPayload(status="failed"))])

    assert pending.hand_out() == []
    assert len(pending) == 4
    left: list[str] = []
    while len(pending):
        if keys := pending.needs():
            pending.take_back([away[key] for key in keys])
        left += [keyed.key for keyed in pending.hand_out()]
        pending.landed()
    assert left == [f"{RUN}/0", f"{RUN}/1", "run_2/0", "run_2/1"]


def test_the_end_of_a_run_is_tried_bare_after_it_came_back_from_record_too() -> None:
    pending = Pending()
    end = RunFinishedPayload(status="failed", reason="odd", through_seq=7)
    pending.add([Draft("run_finished", RUN, end)])
    (kept,) = pending.put_away()
    raw = msgspec.Raw(msgspec.json.encode(kept.draft.payload))
    pending.take_back([Keyed(kept.key, msgspec.structs.replace(kept.draft, payload=raw))])
    pending.hand_out()

    assert pending.mend(0, "invalid_event")
    (bare,) = pending.hand_out()
    assert bare.draft.payload == RunFinishedPayload(status="failed", through_seq=7)


def test_text_in_many_pieces_weighs_what_it_is_long() -> None:
    pending = Pending()
    pending.add([delta("ab")] * 5_000)

    assert text_of(pending.hand_out()) == "ab" * 5_000


def test_an_event_that_is_never_taken_becomes_a_marker_and_then_nothing() -> None:
    """Field case 9.4: a refusal of one event does not hold up the run."""
    pending = Pending()
    pending.add([delta("bad"), part(RUN, TextEnd(id="t1"))])
    pending.hand_out()

    assert pending.mend(0, "invalid_text")
    marker, end = pending.hand_out()
    assert marker.key == f"{RUN}/0"
    assert "invalid_text" in str(marker.draft.payload)
    assert pending.mend(0, "invalid_text")
    assert pending.hand_out() == [end]


def test_the_end_of_a_run_is_tried_bare_before_it_is_given_up() -> None:
    pending = Pending()
    end = Draft("run_finished", RUN, RunFinishedPayload(status="failed", reason="odd"))
    pending.add([end])
    pending.hand_out()

    assert pending.mend(0, "invalid_event")
    (bare,) = pending.hand_out()
    assert bare.draft.payload == RunFinishedPayload(status="failed")
    assert not pending.mend(0, "invalid_event")


def test_the_beginning_of_a_run_is_tried_bare_before_it_is_given_up() -> None:
    """Never as a marker: that would be a bare message, and the run could not begin (5.4)."""
    pending = Pending()
    agent = Agent(name="bot", harness="fake", model="odd")
    pending.add([Draft("run_started", RUN, RunStartedPayload(trigger=Trigger(7), agent=agent))])
    pending.hand_out()

    assert pending.mend(0, "invalid_event")
    (bare,) = pending.hand_out()
    assert bare.draft == Draft("run_started", RUN, RunStartedPayload(trigger=Trigger(7)))
    assert not pending.mend(0, "invalid_event")


class PendingRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pending = Pending()
        self.said = ""
        self.landed: list[Keyed] = []
        self.in_hand: list[Keyed] = []
        self.record: dict[str, Keyed] = {}

    @rule(texts=st.lists(st.text(max_size=5), max_size=5))
    def say(self, texts: list[str]) -> None:
        self.pending.add([delta(text) for text in texts])
        self.said += "".join(texts)

    @rule(id_=st.sampled_from(["t1", "t2"]))
    def open_part(self, id_: str) -> None:
        self.pending.add([part(RUN, TextStart(id=id_))])

    @rule()
    def put_away(self) -> None:
        self.record |= {keyed.key: keyed for keyed in self.pending.put_away()}

    def take_back(self) -> None:
        if keys := self.pending.needs():
            self.pending.take_back([self.record.pop(key) for key in keys])

    @rule()
    def hand_out(self) -> None:
        self.take_back()
        batch = self.pending.hand_out()
        assert not self.in_hand or batch == self.in_hand
        self.in_hand = batch

    @precondition(lambda self: self.in_hand)
    @rule()
    def split(self) -> None:
        self.pending.split()
        self.in_hand = self.in_hand[:1]

    @precondition(lambda self: self.in_hand)
    @rule()
    def land(self) -> None:
        assert self.pending.landed() == self.in_hand
        self.landed += self.in_hand
        self.in_hand = []

    @invariant()
    def what_landed_is_a_beginning_of_what_was_said_with_keys_in_order(self) -> None:
        assert self.said.startswith(text_of(self.landed))
        assert [k.key for k in self.landed] == [f"{RUN}/{n}" for n in range(len(self.landed))]

    def teardown(self) -> None:
        while len(self.pending):
            self.take_back()
            self.landed += self.pending.hand_out()
            self.pending.landed()
        assert not self.record
        assert text_of(self.landed) == self.said
        assert not self.pending.urgent
        assert len(self.pending) == 0


TestPendingRules = PendingRules.TestCase
