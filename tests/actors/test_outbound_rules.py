"""Outbound, whatever a harness says and wherever it stops: framing holds, words are exact."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.events import Draft, Notice, RunStatus
from actors.harness import (
    BlockEnded,
    PermissionAsked,
    PermissionWithdrawn,
    Spoken,
    TextSaid,
    ThoughtSaid,
    Told,
    ToolCalled,
    ToolReturned,
)
from actors.outbound import Outbound
from tests.kit.framing import RunReader, as_wire

BLOCKS = st.sampled_from(["b1", "b2"])
CALLS = st.sampled_from(["c1", "c2", "c3"])
TEXTS = st.text(st.sampled_from("ab é\n\0\U0001f600"), max_size=40)
VALUES: st.SearchStrategy[object] = st.sampled_from(
    [None, "", "out", "long " * 900, ["a\0", {"k": 2**70}], {"x": [["y"]]}]
)
SAID: st.SearchStrategy[Spoken] = st.one_of(
    st.builds(TextSaid, BLOCKS, TEXTS),
    st.builds(ThoughtSaid, BLOCKS, TEXTS),
    st.builds(BlockEnded, BLOCKS),
    st.builds(
        ToolCalled,
        tool_call_id=CALLS,
        tool_name=st.just("Bash"),
        input=VALUES,
        delegates=st.sampled_from([None, "a task"]),
    ),
    st.builds(
        ToolReturned,
        tool_call_id=CALLS,
        output=VALUES,
        is_error=st.booleans(),
        denied=st.booleans(),
    ),
    st.builds(PermissionAsked, tool_call_id=CALLS, tool_name=st.just("Bash"), input=VALUES),
    st.builds(PermissionWithdrawn, CALLS),
    st.builds(Told, level=st.just("info"), code=st.just("told"), text=TEXTS),
)
LIMIT_BYTES = 2_000


class OutboundRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.out = Outbound("r", limit_bytes=LIMIT_BYTES)
        self.reader = RunReader("r")
        self.text = self.thought = ""
        self.asked: set[str] = set()
        self.finished = False

    def read(self, drafts: list[Draft]) -> None:
        if self.finished:
            assert drafts == []
        for draft in drafts:
            self.reader.read(as_wire(draft))

    @rule(said=st.lists(SAID, max_size=8))
    def say(self, said: list[Spoken]) -> None:
        self.read(self.out.translate(said))
        if self.finished:
            return
        for item in said:
            match item:
                case TextSaid(text=text):
                    self.text += text.replace("\0", "")
                case ThoughtSaid(text=text):
                    self.thought += text.replace("\0", "")
                case ToolCalled(tool_call_id=id_) | PermissionAsked(tool_call_id=id_):
                    self.asked.add(id_)
                case _:
                    pass

    @rule(call=CALLS)
    def deny(self, call: str) -> None:
        self.out.denied(call)

    @rule(call=CALLS, output=VALUES, is_error=st.booleans())
    def answer_elsewhere(self, call: str, output: object, is_error: bool) -> None:
        self.read(self.out.answered_elsewhere(call, output, is_error))

    @rule(text=TEXTS)
    def notice(self, text: str) -> None:
        self.read(self.out.notice(Notice("info", "noticed", text)))

    @precondition(lambda self: not self.finished)
    @rule(status=st.sampled_from(["completed", "interrupted", "failed"]))
    def finish(self, status: RunStatus) -> None:
        self.read(self.out.finish(status))
        self.finished = True

        assert self.reader.finished == {"status": status}

    @invariant()
    def every_rule_of_framing_holds(self) -> None:
        assert self.reader.faults == []

    @invariant()
    def all_that_was_said_is_there_and_nothing_else(self) -> None:
        assert "".join(self.reader.texts) == self.text
        assert "".join(self.reader.thoughts) == self.thought

    @invariant()
    def every_call_that_shall_show_shows(self) -> None:
        assert set(self.reader.outcomes) == self.asked

    @invariant()
    def only_calls_without_outcome_are_asked_for(self) -> None:
        assert all(self.reader.outcomes[id_] is None for id_ in self.out.asked)


TestOutboundRules = OutboundRules.TestCase
TestOutboundRules.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
