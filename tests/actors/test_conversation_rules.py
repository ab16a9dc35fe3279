"""Conversation, in any order Hypothesis thinks of: one run a message, one end a run."""

from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.conversation import Conversation
from actors.effects import Effect, Leave, LookBack, LookUp, Settle
from actors.events import (
    Agent,
    ApprovalGiven,
    Body,
    Event,
    InterruptRequested,
    Part,
    RunFinishedPayload,
    RunStartedPayload,
    SeenChunk,
)
from actors.harness import (
    AnySaid,
    Decision,
    PermissionAsked,
    TextSaid,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from actors.messages import (
    Append,
    ApprovalSettled,
    CaughtUp,
    Close,
    Cut,
    Decide,
    Drain,
    EventsSeen,
    HarnessSaid,
    Interrupt,
    Landed,
    PastRead,
    PeopleFound,
    RunRefused,
    SessionEnded,
    StartTurn,
    ThreadInbox,
)
from actors.people import Person

BOT, ADA = "bot-claude", "user-ada"
CALLS = st.sampled_from(["c1", "c2"])


class ConversationRules(RuleBasedStateMachine):
    """The model: which run is open, which prompts were given, what is settled."""

    def __init__(self) -> None:
        super().__init__()
        numbers = count(1)
        self.conversation = Conversation(
            own_principal_id=BOT,
            floor=0,
            agent=Agent(name="Claude", harness="fake"),
            new_id=lambda: str(next(numbers)),
        )
        self.seq = 0
        self.said: list[str] = []
        self.prompted: list[str] = []
        self.turn: StartTurn | None = None
        self.open_run: str | None = None
        self.finished: list[str] = []
        self.settled = 0
        self.left = self.closed = self.draining = self.ready = False
        self.inquiry: LookUp | LookBack | None = None
        self.stopped: set[str] = set()
        self.interrupted: set[str] = set()

    # --- what the outside does -----------------------------------------------------------------

    def step(self, message: ThreadInbox) -> None:
        if self.left:
            return
        for effect in self.conversation.step(message):
            self.check(effect)

    def check(self, effect: Effect) -> None:
        assert not self.left
        match effect:
            case Append():
                for draft in effect.drafts:
                    self.check_draft(draft.run_id, draft.payload)
            case StartTurn():
                assert self.open_run == effect.run_id
                assert not self.draining
                self.turn = effect
                self.prompted.append(effect.text)
            case Settle():
                assert effect.seq >= self.settled
                self.settled = effect.seq
            case Interrupt():
                assert self.turn is not None
                assert effect.prompt_id == self.turn.prompt_id
                assert effect.prompt_id not in self.stopped
                self.stopped.add(effect.prompt_id)
                if not self.draining:  # our own stop does not spoil a turn that ends all the same
                    self.interrupted.add(effect.prompt_id)
            case LookUp() | LookBack():
                assert self.inquiry is None
                assert self.open_run is None
                self.inquiry = effect
            case Decide():
                assert self.open_run is not None
            case Close():
                assert self.draining
                assert not self.closed
                assert self.open_run is None
                self.closed = True
            case Leave():
                assert self.closed
                assert self.open_run is None
                self.left = True
            case _:
                pass

    def check_draft(self, run_id: str, payload: object) -> None:
        if isinstance(payload, RunStartedPayload):
            assert self.open_run is None
            assert run_id not in self.finished
            self.open_run = run_id
            return
        assert self.open_run == run_id
        if isinstance(payload, RunFinishedPayload):
            assert self.turn is not None
            expected = self.turn.prompt_id in self.interrupted
            assert (payload.status == "interrupted") >= expected
            self.open_run = None
            self.finished.append(run_id)

    def see(self, body: Body, **fields: object) -> None:
        self.seq += 1
        event = Event(seq=self.seq, principal_id=ADA, body=body, **fields)  # type: ignore[arg-type]
        self.step(EventsSeen((event,)))

    @rule(word=st.sampled_from(["one", "two", "three"]))
    def say(self, word: str) -> None:
        text = f"{word}-{self.seq}"
        self.said.append(text)
        chunk = SeenChunk(type="text-delta", id="t", delta=text)
        self.see(Part(chunk), run_id=f"msg_{self.seq}", bare_left=0)

    @rule()
    def catch_up(self) -> None:
        self.ready = True
        self.step(CaughtUp(self.seq))

    @rule(run=st.sampled_from(["current", "old", "foreign"]))
    def interrupt(self, run: str) -> None:
        old = self.finished[0] if self.finished else None
        ids = {"current": self.open_run, "old": old}
        self.see(InterruptRequested(), run_id=ids.get(run) or "run_x", role="member")

    @rule(call=CALLS)
    def answer(self, call: str) -> None:
        given = ApprovalGiven(tool_call_id=call, decision="allow")
        self.see(given, run_id=self.open_run or "run_x", role="owner")

    @rule(
        said=st.lists(
            st.one_of(
                st.builds(TextSaid, st.sampled_from(["b1", "b2"]), st.text(max_size=3)),
                st.builds(
                    ToolCalled, tool_call_id=CALLS, tool_name=st.just("T"), input=st.just({})
                ),
                st.builds(
                    PermissionAsked, tool_call_id=CALLS, tool_name=st.just("T"), input=st.just({})
                ),
                st.builds(ToolReturned, tool_call_id=CALLS, output=st.just("ok")),
            ),
            max_size=4,
        )
    )
    def talk(self, said: list[AnySaid]) -> None:
        self.step(HarnessSaid(tuple(said)))

    @precondition(lambda self: self.turn is not None)
    @rule(status=st.sampled_from(["completed", "interrupted", "failed"]), late=st.booleans())
    def end_turn(self, status: str, late: bool) -> None:
        assert self.turn is not None
        prompt = "an older prompt" if late else self.turn.prompt_id
        self.step(HarnessSaid((TurnEnded(prompt_id=prompt, status=status),)))  # type: ignore[arg-type]

    @rule(between=st.booleans())
    def session_ends(self, between: bool) -> None:
        prompt = None if between or self.turn is None else self.turn.prompt_id
        self.step(SessionEnded(prompt_id=prompt, code="agent_failed", text="gone"))

    @rule(call=CALLS, allowed=st.booleans())
    def decide(self, call: str, allowed: bool) -> None:
        run = self.open_run or (self.finished or ["run_x"])[-1]
        decision = Decision(allowed=allowed, message="no")
        self.step(ApprovalSettled(run_id=run, tool_call_id=call, decision=decision))

    @precondition(lambda self: self.finished)
    @rule()
    def land(self) -> None:
        self.step(Landed(self.finished[-1]))

    @precondition(lambda self: self.inquiry)
    @rule(another_bot=st.booleans())
    def tell_what_was_asked(self, another_bot: bool) -> None:
        others = [Person("bot-ci", "bot")] if another_bot else []
        asked, self.inquiry = self.inquiry, None
        if isinstance(asked, LookUp):
            self.step(PeopleFound((Person(ADA, "user"), *others)))
        else:
            self.step(PastRead(()))

    @rule()
    def refuse(self) -> None:
        self.step(RunRefused(self.open_run or "run_x", "forbidden"))

    @rule()
    def drain(self) -> None:
        self.draining = True
        self.step(Drain())

    @rule()
    def cut(self) -> None:
        self.draining = True
        self.step(Cut())

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def every_message_is_prompted_at_most_once_and_in_order(self) -> None:
        assert "\n\n".join(self.said).startswith("\n\n".join(self.prompted))

    @invariant()
    def nothing_waits_when_nothing_is_in_hand(self) -> None:
        idle = self.conversation.run_id is None and self.inquiry is None
        if self.ready and not self.draining and idle:
            assert "\n\n".join(self.said) == "\n\n".join(self.prompted)


TestConversationRules = ConversationRules.TestCase
