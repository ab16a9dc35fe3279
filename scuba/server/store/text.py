"""What the store asks of texts, ids, moments and payloads, beyond what all JSON must be (1.2)."""

import re
from typing import Any

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.ids import moment, moment_ms
from scuba.server.strictness import canonical, storable

PAYLOAD_NESTING = wire.MAX_NESTING - 3
"""A payload goes out inside a frame, its `events` and an envelope, and must stay readable there."""


def check_text(name: str, text: str | None, limit: int) -> None:
    """Refuse a text that is too long or that not every engine can store."""
    if text is None:
        return
    if len(text) > limit:
        raise Problem(400, "invalid_json", f"{name} is longer than {limit} characters")
    if not storable(text):
        raise Problem(400, "invalid_text", f"{name} holds U+0000 or half of a surrogate pair")


def check_form(name: str, text: str, form: re.Pattern[str], code: str = "invalid_json") -> None:
    """Refuse an id or key that does not have its form (1.5)."""
    if form.fullmatch(text) is None:
        raise Problem(400, code, f"{name} does not have the form {form.pattern}")


def read_moment(name: str, text: str | None) -> str | None:
    """Return a moment in the store's own form. Raises Problem 400 when it is none."""
    if text is None:
        return None
    try:
        return moment(moment_ms(text))
    except (ValueError, OverflowError):
        raise Problem(400, "invalid_json", f"{name} is not an RFC 3339 time") from None


def read_payload(raw: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the object that a payload holds, and its text with sorted names.

    Raises Problem `invalid_json`, `invalid_text`, or `invalid_event` when it is no object.
    """
    if raw.lstrip()[:1] not in (b"", b"{"):
        raise Problem(400, "invalid_event", "payload is not an object")
    try:
        return canonical(raw, PAYLOAD_NESTING)
    except Problem as error:
        raise Problem(error.status, error.code, f"payload: {error.detail}") from None
