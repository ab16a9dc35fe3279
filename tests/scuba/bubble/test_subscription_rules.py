"""Subscriptions, whatever a server sends: an inbox gets 1, 2, 3 …, each once, in order."""

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scuba import wire
from scuba.bubble.lines import Lines
from scuba.bubble.subscription import AskLater, Behind, Subscription, following
from scuba.bubble.subscriptions import Subscriptions
from scuba.errors import ScubaError

THREAD = "thr_a"


def envelope(seq: int) -> wire.Envelope:
    return wire.Envelope(
        id=f"evt_{seq}", thread_id=THREAD, seq=seq, ts="", principal_id="user-ada", type="x.y.z"
    )


def envelopes(first: int, last: int) -> list[wire.Envelope]:
    return [envelope(seq) for seq in range(first, last + 1)]


def seqs_of(events: list[wire.Envelope]) -> list[int]:
    return [event.seq for event in events]


class SubscriptionRules(RuleBasedStateMachine):
    """The server is wrong in every way; the inbox holds two messages and is read now and then."""

    def __init__(self) -> None:
        super().__init__()
        lines = Lines()
        self.line = lines.first
        self.all = Subscriptions(lines)
        self.send, self.receive = trio.open_memory_channel[list[int]](2)
        self.subscription = Subscription(
            THREAD, 0, self.send, lambda events: seqs_of(list(events)), lambda _: []
        )
        self.all.add(self.subscription)
        self.got: list[int] = []
        self.behind: list[Behind] = []
        self.later: list[AskLater] = []

    def take(self, frame: wire.ServerFrame) -> None:
        assert isinstance(
            frame,
            wire.ServerEvents
            | wire.ServerSubscribed
            | wire.ServerUnsubscribed
            | wire.ServerCaughtUp
            | wire.ServerError,
        )
        match self.all.take(frame, self.line):
            case Behind() as behind:
                self.behind.append(behind)
            case AskLater() as later:
                self.later.append(later)
            case None:
                pass

    @rule(first=st.integers(1, 40), count=st.integers(1, 8))
    def events_from_anywhere(self, first: int, count: int) -> None:
        self.take(wire.ServerEvents(thread_id=THREAD, events=envelopes(first, first + count)))

    @rule(count=st.integers(1, 8))
    def events_that_follow(self, count: int) -> None:
        first = self.subscription.cursor + 1
        self.take(wire.ServerEvents(thread_id=THREAD, events=envelopes(first, first + count)))

    @rule()
    def the_server_answers(self) -> None:
        self.take(
            wire.ServerSubscribed(thread_id=THREAD, after=0, last_seq=99, ref=self.subscription.ref)
        )

    @rule(ref=st.sampled_from(["s1", "s2", None]))
    def the_server_answers_an_old_request(self, ref: str | None) -> None:
        self.take(wire.ServerSubscribed(thread_id=THREAD, after=0, last_seq=99, ref=ref))

    @rule(reason=st.sampled_from(["client", "revoked", "expired"]))
    def the_server_ends_it(self, reason: str) -> None:
        self.take(wire.ServerUnsubscribed(thread_id=THREAD, reason=reason))

    @rule(code=st.sampled_from(["rate_limited", "thread_not_found", "internal"]))
    def the_server_refuses(self, code: str) -> None:
        self.take(
            wire.ServerError(code=code, detail="", thread_id=THREAD, ref=self.subscription.ref)
        )

    @rule()
    def caught_up(self) -> None:
        self.take(wire.ServerCaughtUp(thread_id=THREAD, seq=99))

    @rule()
    def a_new_connection(self) -> None:
        self.line.clear()
        self.all.ask_all(self.line)

    @rule()
    def the_inbox_is_read(self) -> None:
        try:
            self.got += self.receive.receive_nowait()
        except trio.WouldBlock:
            return
        if self.behind:  # what waits goes in as soon as there is room, as `send` does it
            behind = self.behind.pop()
            self.send.send_nowait(behind.message)
            self.subscription.cursor = behind.cursor
            self.all.ask(self.subscription)

    @rule()
    def time_passes(self) -> None:
        for later in self.later:
            if self.all.still_asked(later):
                self.all.ask(later.subscription)
        self.later.clear()

    @invariant()
    def each_event_once_in_order(self) -> None:
        assert self.got == list(range(1, len(self.got) + 1))

    @invariant()
    def who_is_behind_is_waited_for(self) -> None:
        assert (self.subscription.state == "behind") == bool(self.behind)


TestSubscriptionRules = SubscriptionRules.TestCase
TestSubscriptionRules.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


async def test_what_is_sent_is_the_latest_word_on_each_thread() -> None:
    """So a burst of comings and goings costs one frame, and memory for one."""
    lines = Lines()
    outgoing, subscriptions = lines.first, Subscriptions(lines)
    send, _ = trio.open_memory_channel[None](0)
    for _ in range(3):
        subscription = Subscription("thr_b", 7, send, lambda _: None, lambda _: None)
        subscriptions.add(subscription)
        subscriptions.remove(subscription)
    subscriptions.add(Subscription("thr_b", 9, send, lambda _: None, lambda _: None))

    frame = await outgoing.get()
    assert isinstance(frame, wire.ClientSubscribe)
    assert frame.after == 9
    with trio.move_on_after(0) as empty:
        await outgoing.get()
    assert empty.cancelled_caught


def test_a_thread_that_lost_its_beginning_goes_on_where_it_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = Lines()
    subscriptions = Subscriptions(lines)
    send, _ = trio.open_memory_channel[None](0)
    subscription = Subscription(THREAD, 3, send, lambda _: None, lambda _: None)
    subscriptions.add(subscription)
    subscriptions.take(
        wire.ServerError(
            code="history_gone", detail="", thread_id=THREAD, first_seq=10, ref=subscription.ref
        ),
        lines.first,
    )

    assert subscription.cursor == 9
    assert "no longer has seq 4 to 9" in caplog.text


@pytest.mark.parametrize("tells", [True, False])
def test_a_log_that_went_back_is_told_once_and_gone_on_with_at_its_head(
    caplog: pytest.LogCaptureFixture, tells: bool
) -> None:
    lines = Lines()
    subscriptions = Subscriptions(lines)
    send, receive = trio.open_memory_channel[object](1)
    went_back = (lambda head: ("went back", head)) if tells else None
    subscription = Subscription[object](THREAD, 30, send, lambda _: None, lambda _: None, went_back)
    subscriptions.add(subscription)
    for _ in range(2):
        subscriptions.take(
            wire.ServerError(
                code="future_cursor", detail="", thread_id=THREAD, last_seq=20, ref="s1"
            ),
            lines.first,
        )

    assert subscription.cursor == 20
    assert caplog.text.count("ends at seq 20") == 1
    if tells:
        assert receive.receive_nowait() == ("went back", 20)
    else:
        assert subscription.ref == "s2"


def test_another_log_ends_the_program_with_both_epochs_and_a_next_step() -> None:
    lines = Lines()
    subscriptions = Subscriptions(lines)
    subscriptions.log_epoch = "e-old"
    send, _ = trio.open_memory_channel[None](0)
    subscription = Subscription(THREAD, 3, send, lambda _: None, lambda _: None)
    subscriptions.add(subscription)
    with pytest.raises(ScubaError, match="e-old") as caught:
        subscriptions.take(
            wire.ServerError(
                code="epoch_changed",
                detail="",
                thread_id=THREAD,
                log_epoch="e-new",
                ref=subscription.ref,
            ),
            lines.first,
        )

    assert "e-new" in caught.value.what
    assert "start anew" in caught.value.hint


def test_following_is_told_by_seq_alone() -> None:
    """Field case 2.7: not by time or text."""
    fresh, has_hole = following(5, envelopes(1, 8))
    assert (seqs_of(fresh), has_hole) == ([6, 7, 8], False)
    fresh, has_hole = following(5, [envelope(6), envelope(8)])
    assert (seqs_of(fresh), has_hole) == ([6], True)
