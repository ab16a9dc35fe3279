"""OpenRequests, in whatever order: settled once, by the first who may, and nobody told twice."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.approval import MAX_KEPT, MAX_REFUSED, ApprovalOutcome, OpenRequests
from actors.harness import Decision, Supplied
from actors.messages import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalInbox,
    ApprovalRejected,
    ApprovalSettled,
    RunEnded,
)

BOT, ADA, BEN = "bot-scuba", "user-ada", "user-ben"
YES, NO = Decision(allowed=True), Decision(allowed=False, message="not today")


def asked(call: str = "c1", run_id: str = "r1", tool: str = "Bash") -> ApprovalAsked:
    return ApprovalAsked(run_id=run_id, tool_call_id=call, tool_name=tool)


def answered(
    decision: Decision,
    call: str = "c1",
    *,
    by: str = ADA,
    role: str | None = "owner",
    result: bool = False,
    run_id: str = "r1",
) -> ApprovalAnswered:
    return ApprovalAnswered(
        run_id=run_id,
        tool_call_id=call,
        principal_id=by,
        role=role,
        kind="result" if result else "approval",
        decision=decision,
    )


def play(*messages: ApprovalInbox) -> list[ApprovalOutcome]:
    requests = OpenRequests(BOT)
    return [outcome for message in messages for outcome in requests.step(message)]


def allowed(outcomes: list[ApprovalOutcome]) -> list[tuple[str, bool]]:
    return [
        (o.tool_call_id, o.decision.allowed) for o in outcomes if isinstance(o, ApprovalSettled)
    ]


@pytest.mark.parametrize(
    ("role", "result", "valid"),
    [
        ("owner", False, True),
        ("approver", False, True),
        ("tool_runner", False, False),
        ("member", False, False),
        ("commenter", False, False),
        (None, False, False),
        ("owner", True, True),
        ("approver", True, False),
        ("tool_runner", True, True),
        ("member", True, False),
    ],
)
def test_only_certain_roles_decide(role: str | None, result: bool, valid: bool) -> None:
    """Field case 3.3: the right to speak is not the right to decide."""
    outcomes = play(asked(), answered(YES, role=role, result=result))

    assert [type(outcome) for outcome in outcomes] == [
        ApprovalSettled if valid else ApprovalRejected
    ]


def test_nobody_decides_on_their_own_calls() -> None:
    """Chapter 3.2: not even as an owner of the thread."""
    outcomes = play(asked(), answered(YES, by=BOT))

    assert [type(outcome) for outcome in outcomes] == [ApprovalRejected]


def test_who_may_not_decide_is_told_once_for_each_call() -> None:
    """Field case 3.3."""
    outcomes = play(
        asked("c1"),
        asked("c2"),
        answered(YES, "c1", by=BEN, role="member"),
        answered(NO, "c1", by=BEN, role="member"),
        answered(YES, "c2", by=BEN, role="member"),
    )

    assert outcomes == [outcomes[0]] * 2
    assert isinstance(outcomes[0], ApprovalRejected)
    assert outcomes[0].notice.level == "warning"
    assert BEN in outcomes[0].notice.text


def test_the_first_valid_answer_wins_and_a_replay_changes_nothing() -> None:
    """Field case 3.7."""
    first, second = answered(YES, by=ADA), answered(NO, by=BEN, role="approver")

    assert allowed(play(asked(), first, second, first, second, asked())) == [("c1", True)]


FOR_RUN = Decision(allowed=True, for_run=True)


def test_a_yes_for_the_run_is_for_one_tool_and_ends_with_the_run() -> None:
    """Field case 3.11."""
    outcomes = play(
        asked("c1"),
        asked("waits already"),
        asked("another", tool="Write"),
        answered(FOR_RUN, "c1"),
        asked("c2"),
        asked("elsewhere", run_id="r2"),
        RunEnded("r1"),
        asked("c3"),
    )

    settled = [one for one in outcomes if isinstance(one, ApprovalSettled)]
    assert [(one.tool_call_id, one.decision.standing) for one in settled] == [
        ("c1", None),
        ("waits already", ADA),
        ("c2", ADA),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        answered(FOR_RUN, by=BEN, role="member"),
        answered(NO),
        answered(YES),
        answered(FOR_RUN, by=BOT),
    ],
)
def test_no_other_answer_is_for_the_run(answer: ApprovalAnswered) -> None:
    """Field case 3.11: the default is once, and only those who may decide give more."""
    outcomes = play(asked("c1"), answer, asked("c2"))

    assert [call for call, _ in allowed(outcomes) if call == "c2"] == []


def test_a_yes_for_the_run_answers_no_question() -> None:
    """Field cases 3.9 and 3.11: each question of the agent waits for an answer of its own."""
    first = msgspec.structs.replace(asked("q1", tool="Ask"), is_question=True)
    second = msgspec.structs.replace(asked("q2", tool="Ask"), is_question=True)

    assert allowed(play(first, second, answered(FOR_RUN, "q1"))) == [("q1", True)]
    assert allowed(play(first, answered(FOR_RUN, "q1"), second)) == [("q1", True)]


def test_an_answer_of_its_own_goes_before_the_yes_for_the_run() -> None:
    outcomes = play(asked("c1"), answered(FOR_RUN, "c1"), answered(NO, "c2"), asked("c2"))

    assert allowed(outcomes) == [("c1", True), ("c2", False)]


def test_each_answer_reaches_its_own_call() -> None:
    """Field case 3.6: four calls, answered in reverse, the last one much later."""
    calls = [asked(f"c{n}") for n in range(4)]
    outcomes = play(
        *calls, answered(YES, "c3"), answered(NO, "c2"), answered(YES, "c1"), answered(YES, "c0")
    )

    assert allowed(outcomes) == [("c3", True), ("c2", False), ("c1", True), ("c0", True)]


def test_an_answer_may_come_before_its_question() -> None:
    """Chapter 5.7: and of several that did, the first valid one decides."""
    early = [
        answered(YES, by=BEN, role="member"),
        answered(NO, by=BEN, role="approver"),
        answered(YES, by=ADA),
    ]
    assert play(*early) == []

    outcomes = play(*early, asked())
    assert [type(outcome) for outcome in outcomes] == [ApprovalRejected, ApprovalSettled]
    assert allowed(outcomes) == [("c1", False)]


def test_nothing_of_a_run_counts_after_its_end() -> None:
    """Field case 3.10: a late allow does nothing, and never counts for another run."""
    ended = RunEnded("r1")

    assert play(asked(), answered(YES, "c2"), ended, answered(YES), asked("c2")) == []
    assert allowed(play(asked(), ended, asked(run_id="r2"), answered(YES, run_id="r2"))) == [
        ("c1", True)
    ]


@pytest.mark.parametrize("reason", ["", "  ", "use the staging host"])
def test_a_denial_tells_the_model_who_and_why(reason: str) -> None:
    """Field case 3.2: the message of a denial is never empty."""
    [outcome] = play(asked(), answered(Decision(allowed=False, message=reason)))

    assert isinstance(outcome, ApprovalSettled)
    assert ADA in outcome.decision.message
    assert reason.strip() in outcome.decision.message


def test_an_answer_passes_on_what_it_carries() -> None:
    changed = Decision(allowed=True, updated_input={"command": "true"})
    given = Decision(allowed=False, message="given", supplied=Supplied({"x": 1}))

    outcomes = play(
        asked("c1"), answered(changed, "c1"), asked("c2"), answered(given, "c2", result=True)
    )

    assert [o.decision for o in outcomes if isinstance(o, ApprovalSettled)] == [changed, given]


def test_what_is_withdrawn_is_denied_once() -> None:
    requests = OpenRequests(BOT)
    requests.step(asked("c1"))
    requests.step(asked("c2"))
    requests.step(answered(YES, "c1"))

    [gone] = requests.withdraw_all()

    assert (gone.tool_call_id, gone.decision.allowed) == ("c2", False)
    assert gone.decision.message
    assert requests.withdraw_all() == []
    assert requests.step(answered(YES, "c2")) == []


def test_answers_to_calls_that_never_come_do_not_fill_the_memory() -> None:
    requests = OpenRequests(BOT)
    for n in range(MAX_KEPT + 500):
        for _ in range(3):
            requests.step(answered(YES, f"c{n}"))
            requests.step(answered(NO, f"c{n}", by=BEN, role="member"))

    assert requests.statistics().early == 2 * MAX_KEPT
    assert len(requests.step(asked(f"c{MAX_KEPT + 499}"))) == 2
    assert requests.step(asked("c0")) == []


def test_a_crowd_without_rights_does_not_crowd_out_the_answer() -> None:
    crowd = [answered(NO, by=f"user-{n}", role="member") for n in range(MAX_REFUSED + 50)]

    early = play(*crowd, answered(YES), asked())
    late = play(asked(), *crowd, answered(YES))

    for outcomes in (early, late):
        assert allowed(outcomes) == [("c1", True)]
        assert len(outcomes) == MAX_REFUSED + 1


CALLS = st.tuples(st.sampled_from(["r1", "r2"]), st.sampled_from(["c1", "c2"]))
WHO = st.sampled_from([(ADA, "owner"), (BEN, "member"), ("user-cy", "approver"), (BOT, "owner")])


class ApprovalRules(RuleBasedStateMachine):
    """Against a model that keeps all it ever saw of a run, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = OpenRequests(BOT)
        self.answers: dict[tuple[str, str], list[tuple[str, str, Decision]]] = {}
        self.asked: set[tuple[str, str]] = set()
        self.settled: dict[tuple[str, str], Decision] = {}
        self.told: set[tuple[str, str, str]] = set()

    def step(self, message: ApprovalInbox, call: tuple[str, str] | None = None) -> None:
        for outcome in self.requests.step(message):
            if isinstance(outcome, ApprovalSettled):
                assert call == (outcome.run_id, outcome.tool_call_id)
                assert call not in self.settled
                self.settled[call] = outcome.decision
            else:
                assert call is not None
                key = (*call, outcome.notice.text)
                assert key not in self.told
                self.told.add(key)

    @rule(call=CALLS)
    def ask(self, call: tuple[str, str]) -> None:
        self.asked.add(call)
        self.step(asked(call[1], call[0]), call)

    @rule(call=CALLS, who=WHO, decision=st.sampled_from([YES, Decision(allowed=True, message="b")]))
    def answer(self, call: tuple[str, str], who: tuple[str, str], decision: Decision) -> None:
        self.answers.setdefault(call, []).append((*who, decision))
        self.step(answered(decision, call[1], by=who[0], role=who[1], run_id=call[0]), call)

    @rule(run_id=st.sampled_from(["r1", "r2"]))
    def run_ends(self, run_id: str) -> None:
        self.step(RunEnded(run_id))
        for kept in (self.answers, self.settled):
            for call in [call for call in kept if call[0] == run_id]:
                del kept[call]
        self.asked = {call for call in self.asked if call[0] != run_id}
        self.told = {key for key in self.told if key[0] != run_id}

    @invariant()
    def a_call_is_settled_by_the_first_who_may(self) -> None:
        for call in self.asked:
            valid = [
                decision
                for by, role, decision in self.answers.get(call, [])
                if role in ("owner", "approver") and by != BOT
            ]
            assert self.settled.get(call) == (valid[0] if valid else None)

    @invariant()
    def everybody_who_may_not_was_told(self) -> None:
        refused = {
            (*call, by)
            for call in self.asked
            for by, role, _ in self.answers.get(call, [])
            if role not in ("owner", "approver") or by == BOT
        }
        assert {(run, call, text.split()[0]) for run, call, text in self.told} == refused


TestApprovalRules = ApprovalRules.TestCase
TestApprovalRules.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
