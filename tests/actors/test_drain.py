"""InputDrain: which messages of others are final, and what of them becomes the next prompt."""

from collections.abc import Sequence

import pytest

from actors.drain import InputDrain
from actors.events import (
    ApprovalGiven,
    Body,
    Event,
    InterruptRequested,
    Part,
    ResultGiven,
    RunFinished,
    RunStarted,
    SeenChunk,
    Unknown,
)

BOT, ADA, BEN = "bot-scuba", "user-ada", "user-ben"


def event(
    seq: int, body: Body, run_id: str | None = "r1", by: str = ADA, left: int | None = None
) -> Event:
    return Event(seq=seq, principal_id=by, body=body, run_id=run_id, bare_left=left)


def start(id_: str = "t") -> Part:
    return Part(SeenChunk(type="text-start", id=id_))


def delta(text: str, id_: str = "t") -> Part:
    return Part(SeenChunk(type="text-delta", id=id_, delta=text))


def end(id_: str = "t") -> Part:
    return Part(SeenChunk(type="text-end", id=id_))


def bare(seq: int, text: str, run_id: str = "m1", by: str = ADA) -> Event:
    return event(seq, delta(text), run_id, by, left=0)


def took(drain: InputDrain) -> tuple[str | None, int] | None:
    """Return the text of what is taken, and up to where it reaches."""
    taken = drain.take()
    return None if taken is None else (taken.text, taken.through_seq)


def drained(events: Sequence[Event], *, floor: int = 0) -> tuple[str | None, int] | None:
    drain = InputDrain(BOT, floor)
    for item in events:
        drain.observe(item)
    return took(drain)


def test_a_run_drains_when_it_is_finished_and_not_before() -> None:
    drain = InputDrain(BOT, 0)
    bodies: list[Body] = [RunStarted(), start(), delta("he"), delta("llo"), end()]
    for seq, body in enumerate(bodies, 1):
        drain.observe(event(seq, body))

        assert not drain.waiting
        assert drain.take() is None
    drain.observe(event(6, RunFinished("interrupted")))

    assert drain.waiting
    assert took(drain) == ("hello", 6)
    assert drain.take() is None
    assert drain.settled_seq == 6


def test_all_that_is_final_is_one_message_in_the_order_in_which_it_began() -> None:
    """The thread shows a message at the place of its first event (5.5), so the prompt does."""
    events = [
        event(1, RunStarted(), "long", BEN),
        bare(2, "short", "m1"),
        event(3, delta("long"), "long", BEN),
        event(4, RunStarted(), "open", BEN),
        event(5, RunFinished(), "long", BEN),
    ]

    assert drained(events) == ("long\n\nshort", 5)


def test_parts_of_one_run_stand_in_order_of_appearance() -> None:
    chunks = [start("a"), start("b"), delta("2", "b"), delta("1", "a"), end("a"), delta("3", "a")]
    events = [event(1, RunStarted())]
    events += [event(seq, body) for seq, body in enumerate(chunks, 2)]
    events += [event(8, RunFinished())]

    assert drained(events) == ("1\n\n2\n\n3", 8)


def test_own_events_are_no_input() -> None:
    own = [event(1, RunStarted(), by=BOT), event(2, delta("I"), by=BOT), bare(3, "me", by=BOT)]

    assert drained([*own, event(4, RunFinished(), by=BOT)]) is None


def test_a_run_that_the_server_finishes_is_final_whoever_caused_it() -> None:
    """Chapter 5.6: the finish of a dead run carries the acting principal, even this bot."""
    events = [
        event(1, RunStarted()),
        event(2, delta("last words")),
        event(3, RunFinished(), by=BOT),
    ]

    assert drained(events) == ("last words", 3)


@pytest.mark.parametrize(
    "chunk",
    [
        SeenChunk(type="tool-input-available", tool_call_id="c"),
        SeenChunk(type="file", media_type="image/png"),
        SeenChunk(type="data-notice"),
        SeenChunk(type="reasoning-delta", id="r", delta="hm"),
        SeenChunk(type="text-delta", id="t", delta=" \n"),
    ],
    ids=lambda chunk: chunk.type,
)
def test_what_is_not_text_is_consumed_in_silence(chunk: SeenChunk) -> None:
    """It still counts as settled: a restart does not meet it again."""
    events = [event(1, RunStarted()), event(2, Part(chunk)), event(3, RunFinished())]

    assert drained(events) == (None, 3)


@pytest.mark.parametrize(
    "body",
    [
        InterruptRequested("stop"),
        ApprovalGiven("c", "allow"),
        ResultGiven("c", "text"),
        Unknown(),
    ],
    ids=lambda body: type(body).__name__,
)
def test_what_is_said_about_a_run_is_no_input(body: Body) -> None:
    assert drained([event(1, body), event(2, body, run_id=None)]) is None


def test_a_bare_message_drains_at_its_last_event() -> None:
    drain = InputDrain(BOT, 0)
    drain.observe(event(1, delta("par"), "m1", left=1))

    assert drain.take() is None
    drain.observe(event(2, delta("tial"), "m1", left=0))
    assert took(drain) == ("partial", 2)


def test_a_part_we_cannot_read_does_not_hold_up_its_bare_message() -> None:
    events = [event(1, delta("text"), "m1", left=1), event(2, Unknown(), "m1", left=0)]

    assert drained(events) == ("text", 2)


def test_two_bare_messages_woven_in_one_batch_are_settled_together() -> None:
    """A checkpoint between them would cut the second in two."""
    drain = InputDrain(BOT, 0)
    drain.observe(event(1, delta("b1"), "b", left=1))
    drain.observe(event(2, delta("a"), "a", left=0))

    assert drain.take() is None
    drain.observe(event(3, delta("b2"), "b", left=0))
    assert took(drain) == ("b1b2\n\na", 3)


def test_a_bare_message_that_never_ends_holds_up_nobody_for_long() -> None:
    drain = InputDrain(BOT, 0)
    drain.observe(event(1, delta("never whole"), "b", left=1))
    for seq in range(2, 256):
        drain.observe(event(seq, Unknown(), None))
    drain.observe(bare(256, "a"))
    assert drain.take() is None
    drain.observe(event(257, Unknown(), None))

    assert took(drain) == ("a", 256)


def test_bare_deltas_of_an_older_server_drain_as_seen_and_more_is_a_new_message() -> None:
    """Chapter 5.4: without `bareLeft`, and with a view from seq 1."""
    drain = InputDrain(BOT, 0)
    drain.observe(event(1, delta("a"), "m1"))
    drain.observe(event(2, delta("b"), "m1"))
    assert took(drain) == ("ab", 2)
    drain.observe(event(3, delta("c"), "m1"))

    assert took(drain) == ("c", 3)


def test_overlap_is_told_by_seq_and_equal_words_count_twice() -> None:
    """Field case 2.7: a replay after a reconnect changes nothing, two times "ok" are two."""
    drain = InputDrain(BOT, 0)
    events = [bare(1, "ok", "m1", ADA), bare(2, "ok", "m2", BEN), bare(3, "go", "m3")]
    for item in [*events[:2], *events]:
        drain.observe(item)

    assert took(drain) == ("ok\n\nok\n\ngo", 3)
    for item in events:
        drain.observe(item)
    assert drain.take() is None


def test_what_arrives_while_a_run_starts_waits_and_comes_once() -> None:
    """Field case 1.7: between the prompt and the first word of the harness."""
    drain = InputDrain(BOT, 0)
    drain.observe(bare(1, "first", "m1"))
    assert took(drain) == ("first", 1)
    drain.observe(event(2, RunStarted(), "run", BOT))
    drain.observe(bare(3, "second", "m2"))

    assert took(drain) == ("second", 3)
    assert drain.take() is None


def test_what_was_final_at_the_floor_is_settled_and_what_ends_above_is_not() -> None:
    """The window reaches below the floor for the beginning of a run that ends above it."""
    events = [
        event(1, RunStarted(), "late", BEN),
        bare(2, "old", "m1"),
        event(3, delta("late"), "late", BEN),
        event(4, RunFinished(), "late", BEN),
    ]

    assert drained(events, floor=3) == ("late", 4)
    assert drained(events, floor=4) is None


def test_a_run_seen_from_its_middle_waits_for_its_beginning() -> None:
    """Field case 2.3: and what was final after it waits too, lest a checkpoint cover it."""
    whole = [
        event(2, RunStarted()),
        event(3, delta("be")),
        event(8, delta("gin")),
        event(9, RunFinished()),
    ]
    drain = InputDrain(BOT, 7)
    for item in [*whole[2:], bare(10, "after")]:
        drain.observe(item)
    assert drain.needs() == {"r1"}
    assert drain.take() is None

    drain.fill("r1", whole)

    assert drain.needs() == set()
    assert took(drain) == ("begin\n\nafter", 10)


def test_what_was_fetched_ahead_of_the_view_is_left_to_the_view() -> None:
    """Otherwise a checkpoint at the fetched end would cover what lies between, unread."""
    whole = [event(2, RunStarted()), event(8, delta("x")), event(11, RunFinished())]
    drain = InputDrain(BOT, 7)
    drain.observe(whole[1])
    drain.fill("r1", whole)
    assert drain.take() is None
    drain.observe(bare(9, "between"))
    assert took(drain) == ("between", 9)
    drain.observe(event(10, Unknown(), None))
    drain.observe(whole[2])

    assert took(drain) == ("x", 11)


def test_what_came_while_a_run_was_fetched_is_in_it() -> None:
    drain = InputDrain(BOT, 7)
    drain.observe(event(8, delta("b")))
    fetched = [event(2, RunStarted()), event(3, delta("a")), event(8, delta("b"))]
    drain.observe(event(9, delta("c")))
    drain.fill("r1", fetched)
    drain.observe(event(10, RunFinished()))

    assert took(drain) == ("abc", 10)


def test_a_run_whose_beginning_cannot_be_had_is_consumed_in_silence() -> None:
    """Field case 2.3: never drain a run whose beginning is missing; never ask for it twice."""
    drain = InputDrain(BOT, 7)
    drain.observe(event(8, delta("middle")))
    drain.fill("r1", [])
    drain.observe(event(9, delta("more")))
    drain.observe(event(10, RunFinished()))

    assert drain.needs() == set()
    assert took(drain) == (None, 10)


def test_a_run_whose_beginning_was_trimmed_is_consumed_in_silence() -> None:
    """Chapter 7.5: the fetch answers, and yet the run has no start."""
    drain = InputDrain(BOT, 7)
    drain.observe(event(8, delta("middle")))
    drain.observe(event(9, RunFinished()))
    drain.fill("r1", [event(8, delta("middle")), event(9, RunFinished())])

    assert took(drain) == (None, 9)


def test_our_own_run_that_the_server_finished_is_no_input() -> None:
    """Its parts lie before the view, so only the fetch tells whose it was."""
    drain = InputDrain(BOT, 7)
    drain.observe(event(8, RunFinished("failed"), by="system"))
    assert drain.needs() == {"r1"}
    stop = event(4, InterruptRequested(), by=ADA)
    drain.fill("r1", [event(2, RunStarted(), by=BOT), event(3, delta("I"), by=BOT), stop])

    assert drain.take() is None
    assert drain.needs() == set()


def test_a_bare_message_behind_the_floor_needs_no_fetch() -> None:
    """A floor never lies within a bare message, so nothing of it can be missing."""
    assert drained([bare(8, "hello")], floor=7) == ("hello", 8)


def test_a_bare_message_at_the_edge_of_a_cut_view_is_fetched() -> None:
    """Chapter 5.4: its first parts may lie before the view; another author's batch may not."""
    drain = InputDrain(BOT, 7)
    drain.observe(bare(20, "rest", "m1", ADA))
    drain.observe(bare(21, "other", "m2", BEN))
    assert drain.needs() == {"m1"}

    drain.fill("m1", [event(19, delta("first "), "m1", left=1), bare(20, "rest", "m1")])

    assert took(drain) == ("first rest\n\nother", 21)


def test_bare_deltas_of_an_older_server_in_a_cut_view_are_asked_about_and_come_once() -> None:
    """Chapter 5.4: without `bareLeft` only the run as a whole tells that it was never started."""
    drain = InputDrain(BOT, 7)
    first, second = event(8, delta("a"), "m1"), event(9, delta("b"), "m1")
    drain.observe(first)
    drain.fill("m1", [first])
    assert took(drain) == ("a", 8)
    drain.observe(second)
    drain.fill("m1", [first, second])

    assert took(drain) == ("b", 9)


def test_odd_characters_never_reach_the_harness() -> None:
    """Field case 9.1: halves of a pair in two deltas are one character, a lone one is U+FFFD."""
    events = [
        event(1, RunStarted()),
        event(2, delta("\ud83d")),
        event(3, delta("\ude00 \ud800 ok\0")),
        event(4, RunFinished()),
    ]

    assert drained(events) == ("\U0001f600 \ufffd ok", 4)


def test_settled_messages_are_forgotten() -> None:
    drain = InputDrain(BOT, 0)
    for seq in range(1, 1_001):
        drain.observe(bare(seq, "x" * 100, f"m{seq}"))
        drain.take()

    assert (drain._runs, drain._headless) == ({}, {})
