"""A question is answered with what somebody chose, never with less."""

import pytest

from actors.harness import Decision, Supplied
from scuba.harness.claude.questions import NOT_ANSWERED, with_answers

ASKED = {"questions": [{"question": "Which db?"}, {"question": "Which city?"}]}
ONE = {"questions": [{"question": "Which db?"}]}


def given(output: object, *, is_error: bool = False) -> Decision:
    supplied = Supplied(output, is_error)
    return Decision(allowed=False, message="ada gave: …", supplied=supplied)


@pytest.mark.parametrize(
    ("asked", "output", "answers"),
    [
        (
            ASKED,
            {"Which db?": "Postgres", "Which city?": ["Rome", "Oslo"]},
            {"Which db?": "Postgres", "Which city?": "Rome, Oslo"},
        ),
        (ASKED, {"answers": {"Which db?": "Postgres"}}, {"Which db?": "Postgres"}),
        (ONE, " Postgres ", {"Which db?": " Postgres "}),
    ],
)
def test_a_result_that_answers_is_the_answer(
    asked: dict[str, object], output: object, answers: dict[str, str]
) -> None:
    """Field case 3.9."""
    decision = with_answers(asked, given(output))

    assert decision == Decision(allowed=True, updated_input={**asked, "answers": answers})


@pytest.mark.parametrize(
    ("asked", "output"),
    [
        (ASKED, "Postgres"),  # which of the two?
        (ASKED, {"Which car?": "none"}),
        (ASKED, {"Which db?": 7}),
        (ONE, "  "),
        (ONE, ["Postgres"]),
        ({}, "Postgres"),
        ({"questions": "odd"}, {"odd": "x"}),
    ],
)
def test_any_other_result_is_read_as_it_was_given(asked: dict[str, object], output: object) -> None:
    decision = given(output)

    assert with_answers(asked, decision) is decision


def test_a_failed_result_is_no_answer() -> None:
    decision = given({"Which db?": "Postgres"}, is_error=True)

    assert with_answers(ASKED, decision) is decision


@pytest.mark.parametrize("changed", [None, {}, {"questions": []}, {"answers": {}}])
def test_a_yes_without_an_answer_invents_none(changed: dict[str, object] | None) -> None:
    """Field case 3.9."""
    decision = with_answers(ASKED, Decision(allowed=True, updated_input=changed))

    assert decision == Decision(allowed=False, message=NOT_ANSWERED)


@pytest.mark.parametrize(
    "decision",
    [
        Decision(allowed=True, updated_input={**ONE, "answers": {"Which db?": "Postgres"}}),
        Decision(allowed=False, message="no"),
    ],
)
def test_what_is_whole_stays_as_it_is(decision: Decision) -> None:
    assert with_answers(ONE, decision) is decision
