"""Failures: each class by what the CLI tells, in words that are safe to show."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.harness.claude.failures import TEXTS, Outcome, outcome_of
from scuba.harness.claude.frames import Result


def outcome(
    said_error: str | None = None,
    resets_at: float | None = None,
    said_kind: object = None,
    **fields: Any,  # noqa: ANN401  # of a Result
) -> Outcome:
    result = Result(**{"is_error": True, "num_turns": 1, **fields})
    return outcome_of(
        result,
        interrupting=False,
        said_error=said_error,
        said_kind=said_kind,
        resets_at=resets_at,
    )


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"api_error_status": 400}, "bad_request"),
        ({"api_error_status": 401}, "not_logged_in"),
        ({"api_error_status": 403, "said_error": "authentication_failed"}, "forbidden"),
        ({"api_error_status": 404}, "no_such_model"),
        ({"api_error_status": 429}, "rate_limited"),
        ({"api_error_status": 500, "said_error": "server_error"}, "api_error"),
        ({"api_error_status": 529, "said_error": "server_error"}, "overloaded"),
        ({"api_error_status": 400, "result": "Prompt is too long"}, "context_too_long"),
        ({"result": "Not logged in · Please run /login"}, "not_logged_in"),
        ({"said_error": "rate_limit"}, "rate_limited"),
        ({"said_error": "billing_error"}, "billing"),
        ({"terminal_reason": "prompt_too_long"}, "context_too_long"),
        ({"terminal_reason": "max_turns", "subtype": "error_max_turns"}, "max_turns"),
        ({"subtype": "error_max_turns"}, "max_turns"),
        ({"subtype": "error_max_budget_usd"}, "budget"),
        ({"terminal_reason": "image_error", "api_error_status": 400}, "attachment_refused"),
        ({"terminal_reason": "image_error", "api_error_status": 413}, "attachment_refused"),
        ({"api_error_status": 400, "said_kind": "pdf_too_large"}, "attachment_refused"),
        ({"api_error_status": 429, "said_kind": "model_requires_usage_credits"}, "billing"),
        ({"api_error_status": 429, "said_kind": "usage_limit_reached"}, "rate_limited"),
        ({"api_error_status": 400, "said_kind": "message_over_context_limit"}, "context_too_long"),
        ({"api_error_status": 529, "said_kind": "brand_new"}, "overloaded"),
        ({"api_error_status": 529, "said_kind": ["odd"]}, "overloaded"),
        ({"said_error": "max_output_tokens"}, "answer_too_long"),
        ({"stop_reason": "refusal", "terminal_reason": "api_error"}, "refusal"),
        ({"is_error": False, "stop_reason": "refusal"}, "refusal"),
        ({"said_error": "unknown", "terminal_reason": "api_error"}, "api_error"),
        ({}, "agent_failed"),
    ],
)
def test_each_failure_has_its_class(fields: dict[str, Any], code: str) -> None:
    found = outcome(**fields)

    assert (found.status, found.code, found.text) == ("failed", code, TEXTS[code])


@given(st.text(), st.lists(st.text()), st.sampled_from([None, 400, 401, 429, 529, 777]))
def test_no_word_of_the_cli_is_shown(told: str, errors: list[str], status: int | None) -> None:
    """Paths, secrets and diagnostics of the harness stay out (4.3, 10.8)."""
    found = outcome(result=f"/home/x {told}", errors=[*errors], api_error_status=status)

    assert found.text in TEXTS.values() or (found.code == "rate_limited" and "resets" in told)


def test_a_limit_says_when_it_is_lifted() -> None:
    at = outcome(said_error="rate_limit", resets_at=1_800_000_000.0).text
    told = outcome(said_error="rate_limit", result="You've hit your limit · resets 3pm (UTC)").text

    assert at is not None
    assert "until 2027-01-15 08:00 UTC" in at
    assert told is not None
    assert "it resets 3pm (UTC)." in told


@pytest.mark.parametrize("resets_at", [float("inf"), float("nan"), -1e30])
def test_an_impossible_time_is_left_out(resets_at: float) -> None:
    assert outcome(said_error="rate_limit", resets_at=resets_at).text == TEXTS["rate_limited"]


@pytest.mark.parametrize("text", TEXTS.values())
def test_every_text_says_what_to_do(text: str) -> None:
    verbs = (
        "Run",
        "Put",
        "Check",
        "Add",
        "Send",
        "Rephrase",
        "Choose",
        "Start",
        "Install",
        "Raise",
    )

    assert any(verb in text for verb in verbs)
