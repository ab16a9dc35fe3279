"""What went wrong, in words for people: each cause with its next step, no path, no secret.

Codes are stable. Diagnostics of the harness itself never become text.
"""

import re
from typing import Literal

import msgspec

from scuba.harness.claude.frames import Result
from scuba.harness.claude.notices import moment

Status = Literal["completed", "interrupted", "failed"]

ABORTED = frozenset({"aborted_streaming", "aborted_tools"})

TEXTS = {
    "not_logged_in": (
        "Claude is not logged in here, or its key is not valid. Run `claude` and then `/login` "
        "as the user who runs scuba, or set ANTHROPIC_API_KEY; then send the message again."
    ),
    "forbidden": (
        "The model refused access (HTTP 403). Check what the account or API key may use, "
        "then send the message again."
    ),
    "billing": (
        "The account has no credit for the model. Add credit or use another account, "
        "then send the message again."
    ),
    "rate_limited": "The model's usage limit is reached. Send the message again later.",
    "overloaded": "The model is overloaded. Send the message again in a few minutes.",
    "api_error": "The model could not be reached or failed. Send the message again.",
    "bad_request": (
        "The model rejected the request (HTTP 400). Rephrase or shorten the message; "
        "if that does not help, check the configured model."
    ),
    "no_such_model": (
        "The configured model does not exist or is not open to this account. "
        "Choose another model in scuba's settings."
    ),
    "refusal": "The model declined to answer. Rephrase the message.",
    "max_turns": "The agent used up its steps for one message. Send `continue` to go on.",
    "budget": (
        "The agent used up what one answer may cost and was stopped. Send `continue` to go on, "
        "or raise `claude.maxBudgetUsd` in scuba's settings."
    ),
    "no_sandbox": (
        "The agent's sandbox is not to be had on this machine. Install what it needs (the log "
        "says what), or turn `claude.sandbox` off."
    ),
    "context_too_long": (
        "The conversation no longer fits into the model's context. "
        "Start a new thread, or send a shorter message."
    ),
    "attachment_refused": (
        "An image or document in the conversation is too large for the model, or cannot be read. "
        "Send it smaller, or as text."
    ),
    "answer_too_long": (
        "The answer became longer than the model may write at once. Send `continue` to go on, "
        "or ask for less at a time."
    ),
    "agent_failed": "The agent stopped with an internal error. Send the message again.",
    "too_many_files": (
        "The agent could not start: scuba has too many files open. Raise its limit of open files, "
        "or lower `sessions.maxProcesses`; then send the message again."
    ),
    "bad_cwd": (
        "The agent's working directory disappeared. Put it back, or correct `claude.cwd` in "
        "scuba's settings; then send the message again."
    ),
}
TAINTS = frozenset({"bad_request", "attachment_refused", "context_too_long", "agent_failed"})
"""What may come from the conversation so far, and then comes again with every message: a call that
has no result, an image that is refused, a transcript that has grown too long."""

BY_ASSISTANT_ERROR = {
    "authentication_failed": "not_logged_in",
    "oauth_org_not_allowed": "forbidden",
    "billing_error": "billing",
    "rate_limit": "rate_limited",
    "overloaded": "overloaded",
    "server_error": "api_error",
    "invalid_request": "bad_request",
    "model_not_found": "no_such_model",
    "account_on_hold": "forbidden",
    "verification_required": "forbidden",
    "cloud_credential_error": "not_logged_in",
    "max_output_tokens": "answer_too_long",
}
BY_KIND = {
    "usage_limit_reached": "rate_limited",
    "model_requires_usage_credits": "billing",
    "long_context_credits_required": "billing",
    "message_over_context_limit": "context_too_long",
    "autocompact_thrashing": "context_too_long",
    "pdf_too_large": "attachment_refused",
    "pdf_password_protected": "attachment_refused",
    "media_removed": "attachment_refused",
    "max_output_tokens": "answer_too_long",
    "stored_login_refused": "not_logged_in",
    "api_key_auth_disabled": "not_logged_in",
    "org_disabled_credential": "not_logged_in",
    "invalid_credential_header": "not_logged_in",
    "provider_credentials": "not_logged_in",
    "gateway_signin_required": "not_logged_in",
    "gateway_session_expired": "not_logged_in",
}
"""Classes of which the status alone tells something coarser, or wrong."""
BY_STATUS = {
    400: "bad_request",
    401: "not_logged_in",
    402: "billing",
    403: "forbidden",
    404: "no_such_model",
    413: "context_too_long",
    429: "rate_limited",
    529: "overloaded",
}
BY_REASON = {
    "max_turns": "max_turns",
    "budget_exhausted": "budget",
    "prompt_too_long": "context_too_long",
    "blocking_limit": "context_too_long",
    "rapid_refill_breaker": "context_too_long",
    "model_error": "api_error",
    "api_error": "api_error",
}
HINTS = (
    ("prompt is too long", "context_too_long"),
    ("not logged in", "not_logged_in"),
    ("invalid api key", "not_logged_in"),
    ("credit balance is too low", "billing"),
)


RESETS = re.compile(r"resets [A-Za-z0-9 ,:()+-]{1,40}")
"""How the CLI says when a limit is lifted."""


class Outcome(msgspec.Struct, frozen=True):
    """How a turn ended."""

    status: Status
    code: str | None = None
    text: str | None = None

    @property
    def tainted(self) -> bool:
        """Return whether the conversation itself may be the cause."""
        return self.status == "failed" and self.code in TAINTS


COMPLETED, INTERRUPTED = Outcome("completed"), Outcome("interrupted")


def failed(code: str, text: str | None = None) -> Outcome:
    """Return a failure of a known class, with that class's text unless another is given."""
    return Outcome("failed", code, text or TEXTS[code])


def outcome_of(
    result: Result,
    *,
    interrupting: bool,
    said_error: str | None,
    said_kind: object = None,
    resets_at: float | None,
) -> Outcome:
    """Return how the turn of a result ended.

    `said_error` and, finer, `said_kind` are classes that the CLI gave to its own error text;
    `resets_at` (seconds since 1970) is when the account's limit is lifted. An interrupt is no error
    (field case 4.3).
    """
    if result.terminal_reason in ABORTED:
        return INTERRUPTED
    if result.stop_reason == "refusal":
        return failed("refusal")
    if not result.is_error:
        return COMPLETED
    if interrupting:
        return INTERRUPTED
    code = _code_of(result, said_error, said_kind)
    return failed(code, _limit_text(result, resets_at) if code == "rate_limited" else None)


def hinted(told: str) -> str | None:
    """Return the class of failure that a text of the CLI names, if it does."""
    folded = told.casefold()
    return next((code for words, code in HINTS if words in folded), None)


def _code_of(result: Result, said_error: str | None, said_kind: object) -> str:
    if result.terminal_reason == "image_error":
        return "attachment_refused"  # whatever the status: a limit of its size has 400 or 413
    if isinstance(said_kind, str) and said_kind in BY_KIND:
        return BY_KIND[said_kind]
    status = result.api_error_status
    if result.subtype == "error_max_budget_usd":
        return "budget"
    return (
        hinted(result.result or "")
        or (BY_STATUS.get(status) if status is not None else None)
        or BY_ASSISTANT_ERROR.get(said_error or "")
        or BY_REASON.get(result.terminal_reason or "")
        or ("max_turns" if result.subtype == "error_max_turns" else "agent_failed")
    )


def _limit_text(result: Result, resets_at: float | None) -> str | None:
    """Return when the limit is lifted, if that is known."""
    if when := moment(resets_at):
        return f"The model's usage limit is reached until {when}. Send the message after that."
    if told := RESETS.search(result.result or ""):
        return f"The model's usage limit is reached; it {told[0]}. Send the message after that."
    return None
