"""What a window of the log tells of before."""

from actors.events import Body, Event, Part, RunFinished, RunStarted, SeenChunk, Trigger, Unknown
from actors.past import Past, past_of
from actors.thread_message import ThreadMessage
from tests.kit.fakes import ADA, BEN, BOT


def event(
    seq: int, by: str, body: Body, run_id: str | None = None, left: int | None = None
) -> Event:
    return Event(seq=seq, principal_id=by, body=body, run_id=run_id, bare_left=left)


def text(words: str) -> Part:
    return Part(SeenChunk(type="text-delta", id="t", delta=words))


def message(by: str, words: str, final_seq: int) -> ThreadMessage:
    return ThreadMessage(principal_id=by, text=words, final_seq=final_seq)


def test_messages_come_in_the_order_in_which_they_became_final() -> None:
    """A window may begin anywhere; what it has of a run is whole."""
    events = [
        event(7, ADA, Unknown()),
        event(8, ADA, text("on"), "msg_1", 1),
        event(9, ADA, text("e"), "msg_1", 0),
        event(10, BEN, RunStarted(), "run_ben"),
        event(11, BEN, text("slow"), "run_ben"),
        event(12, ADA, text("quick"), "msg_2", 0),
        event(13, BEN, RunFinished(), "run_ben"),
        event(14, ADA, text("not settled"), "msg_3", 0),
    ]
    said = (message(ADA, "one", 9), message(ADA, "quick", 12), message(BEN, "slow", 13))

    assert past_of(events, BOT, 13) == Past(said)


def test_our_runs_tell_what_was_answered_and_what_was_only_told() -> None:
    events = [
        event(1, ADA, text("a"), "msg_1", 0),
        event(2, BOT, RunStarted(Trigger(1)), "run_1"),
        event(3, BOT, text("answer"), "run_1"),
        event(4, BOT, RunStarted(Trigger(1)), "run_2"),
        event(5, BOT, RunStarted(), "run_3"),
        event(6, BOT, RunStarted(Trigger()), "run_4"),
        event(7, BEN, RunStarted(Trigger(1)), "run_ben"),
        event(8, BOT, RunStarted(Trigger(7)), "run_cut"),
    ]

    assert past_of(events, BOT, 5) == Past((message(ADA, "a", 1),), answered=(1,), told_seq=6)


def test_a_beginning_below_the_window_is_part_of_it() -> None:
    events = [
        event(2, BEN, RunStarted(), "run_ben"),
        event(30, BEN, text("late"), "run_ben"),
        event(31, BEN, text("aside"), "msg_1", 0),
        event(32, BEN, RunFinished(), "run_ben"),
    ]

    said = (message(BEN, "aside", 31), message(BEN, "late", 32))
    assert past_of(events, BOT, 40) == Past(said)
