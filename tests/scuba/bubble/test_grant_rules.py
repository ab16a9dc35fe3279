"""GrantBook: whatever comes in between, what was told ends up as what is true."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.events import Role
from actors.messages import ThreadGranted, ThreadRevoked
from scuba import wire
from scuba.bubble.grants import GrantBook

THREADS = st.sampled_from(["thr_a", "thr_b", "thr_c"])


def on_thread(thread_id: str, joined_seq: int | None, role: Role = "member") -> wire.Grant:
    target = wire.Target(type="thread", thread_id=thread_id)
    return wire.Grant(target=target, role=role, joined_seq=joined_seq)


SYSTEM = wire.Grant(target=wire.Target(type="system"), role="owner")


class GrantRules(RuleBasedStateMachine):
    """The server's truth is `true`; frames of it are lost when the connection is."""

    def __init__(self) -> None:
        super().__init__()
        self.book = GrantBook()
        self.true: dict[str, int] = {}
        self.log: list[wire.ServerGrant] = []
        self.told: dict[str, int] = {}
        self.seq = 0
        self.asked: wire.ClientSubscribeGrants | None = self.book.ask()
        self.unsent = 0
        self.joins = 0

    def change(self, action: str, grant: wire.Grant) -> None:
        self.seq += 1
        frame = wire.ServerGrant(grant_seq=self.seq, action=action, grant=grant)  # type: ignore[arg-type]  # one of the three
        self.log.append(frame)

    @rule(thread_id=THREADS)
    def somebody_grants(self, thread_id: str) -> None:
        if thread_id in self.true:
            self.change("changed", on_thread(thread_id, None, "approver"))
            return
        self.joins += 1
        self.true[thread_id] = self.joins
        self.change("granted", on_thread(thread_id, self.joins))

    @rule(thread_id=THREADS)
    def somebody_revokes(self, thread_id: str) -> None:
        if self.true.pop(thread_id, None) is not None:
            self.change("revoked", on_thread(thread_id, None))

    @rule()
    def somebody_grants_something_else(self) -> None:
        self.change("granted", SYSTEM)

    @precondition(lambda self: self.asked is not None)
    @rule(resumes=st.booleans(), split=st.booleans())
    def the_server_answers(self, resumes: bool, split: bool) -> None:
        assert self.asked is not None
        after, ref, self.asked = self.asked.after, self.asked.ref, None
        if after is not None and resumes:
            self.unsent = after
            return
        grants = [SYSTEM, *(on_thread(*item) for item in self.true.items())]
        halves = [grants[:1], grants[1:]] if split else [grants]
        for index, half in enumerate(halves):
            more = index + 1 < len(halves)
            frame = wire.ServerGrantsSnapshot(grant_seq=self.seq, grants=half, more=more, ref=ref)
            assert self.book.take(frame)
        self.unsent = self.seq

    @precondition(lambda self: self.asked is None and self.unsent < self.seq)
    @rule(skip=st.booleans())
    def the_server_sends_a_change(self, skip: bool) -> None:
        if skip and self.unsent + 1 < self.seq:
            self.unsent += 1
        if not self.book.take(self.log[self.unsent]):
            self.asked = self.book.ask()
        self.unsent += 1

    @rule()
    def a_new_connection(self) -> None:
        self.asked = self.book.ask()

    @rule()
    def one_change_is_told(self) -> None:
        match self.book.next_change():
            case ThreadGranted() as granted:
                assert self.told.get(granted.thread_id) != granted.joined_seq
                self.told[granted.thread_id] = granted.joined_seq
                self.book.told(granted)
            case ThreadRevoked() as revoked:
                del self.told[revoked.thread_id]  # KeyError: revoked twice, or never granted
                self.book.told(revoked)
            case None:
                if self.asked is None and self.unsent == self.seq:
                    assert self.told == self.true

    @invariant()
    def only_threads_that_were_granted_are_told(self) -> None:
        assert set(self.told) <= {"thr_a", "thr_b", "thr_c"}


TestGrantRules = GrantRules.TestCase
TestGrantRules.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_change_of_role_alone_is_nothing() -> None:
    book = GrantBook()
    book.ask()
    book.take(wire.ServerGrantsSnapshot(grant_seq=1, grants=[on_thread("thr_a", 5)], more=False))
    first = book.next_change()
    assert isinstance(first, ThreadGranted)
    book.told(first)
    book.take(
        wire.ServerGrant(grant_seq=2, action="changed", grant=on_thread("thr_a", 5, "approver"))
    )

    assert book.next_change() is None


def test_revoked_and_granted_while_away_is_granted_anew() -> None:
    """Field case 8.12: what changed meanwhile is reconciled by the snapshot."""
    book = GrantBook()
    book.ask()
    book.take(
        wire.ServerGrantsSnapshot(
            grant_seq=1, grants=[on_thread("thr_a", 5), on_thread("thr_b", 6)], more=False
        )
    )
    while (change := book.next_change()) is not None:
        book.told(change)
    book.take(wire.ServerGrantsSnapshot(grant_seq=9, grants=[on_thread("thr_a", 50)], more=False))
    changes = []
    while (change := book.next_change()) is not None:
        changes.append(change)
        book.told(change)

    assert changes == [ThreadGranted(thread_id="thr_a", joined_seq=50), ThreadRevoked("thr_b")]
