"""What may be stored as text and as JSON (1.2), checked on values and on payload bytes."""

import json
import re
from typing import Any, NoReturn, cast

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.ids import moment, moment_ms

PAYLOAD_NESTING = wire.MAX_NESTING - 3
"""A payload goes out inside a frame, its `events` and an envelope, and must stay readable there."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{16}")
_NUMBER = re.compile(rb"[-+.0-9eE]+")


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


def storable(text: str) -> bool:
    """Return whether a text is free of U+0000 and lone surrogates."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_payload(raw: bytes) -> dict[str, Any]:
    """Return the object that a payload holds.

    Raises Problem `invalid_json`, `invalid_text`, or `invalid_event` when it is no object.
    """
    _check_shape(raw)
    try:
        payload: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _why(raw, str(error)) from None
    if not isinstance(payload, dict):
        raise Problem(400, "invalid_event", "payload is not an object")
    found = cast("dict[str, Any]", payload)
    if b"\\u0000" in raw and not _all_storable(found):
        raise Problem(400, "invalid_text", "payload holds U+0000")
    return found


def _check_shape(raw: bytes) -> None:
    """Check nesting and integers on the bytes, before anything recursive looks at them."""
    deep = raw.count(b"{") + raw.count(b"[") > PAYLOAD_NESTING
    if not deep and _LONG_NUMBER.search(raw) is None:
        return  # whatever the strings hold
    bones = _STRING.sub(b'""', raw)
    if deep and _depth(bones) > PAYLOAD_NESTING:
        raise Problem(400, "invalid_json", f"payload is nested deeper than {PAYLOAD_NESTING}")
    for number in _NUMBER.findall(bones):
        if number.lstrip(b"-").isdigit() and _beyond(number):
            raise Problem(400, "invalid_json", "payload holds an integer beyond ±(2^53 - 1)")


def _beyond(digits: bytes) -> bool:
    return len(digits) > 20 or abs(int(digits)) > wire.MAX_INTEGER


def _depth(bones: bytes) -> int:
    deepest = depth = 0
    for byte in bones:
        if byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _why(raw: bytes, error: str) -> Problem:
    """Tell bad text from bad JSON: the lenient reader refuses only the second."""
    try:
        json.loads(raw.decode(errors="replace"), parse_constant=_no_constant)
    except ValueError:
        return Problem(400, "invalid_json", f"payload: {error}")
    if error.startswith("Number out of range"):
        return Problem(400, "invalid_json", "payload holds a number beyond what JSON readers take")
    return Problem(400, "invalid_text", "payload holds half of a surrogate pair, or no UTF-8")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _all_storable(payload: dict[str, Any]) -> bool:
    todo: list[object] = [payload]
    while todo:
        value = todo.pop()
        if isinstance(value, str) and not storable(value):
            return False
        if isinstance(value, dict):
            inner = cast("dict[str, object]", value)
            todo += [*inner, *inner.values()]
        elif isinstance(value, list):
            todo += cast("list[object]", value)
    return True
