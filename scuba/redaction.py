"""What may leave in a log line: no secret, nothing that steers a terminal, no endless text."""

import json
import math
import re
from collections.abc import Collection
from typing import cast
from urllib.parse import quote

from scuba.secret import SECRET_LENGTH

REDACTED = "[redacted]"
TEXT_LENGTH = 16_384
"""Most characters of one text in a log line; a traceback fits."""

_TOKENS = re.compile(
    r"bubble_(?:agent|user)_[A-Za-z0-9_-]{4,}"
    r"|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"  # a JWT
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_STEERING = re.compile(r"[\ud800-\udfff]|" + _CONTROLS.pattern)

_secrets: dict[str, None] = {}


def register_secret(value: str) -> None:
    """Keep a value, in every form it may be written in, out of all log lines from now on."""
    value = value.strip()
    if len(value) < SECRET_LENGTH:
        return
    forms = {value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe="")}
    _secrets.update(dict.fromkeys(forms))


def redact(text: str) -> str:
    """Return a text without any registered secret and without anything formed like a token."""
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, REDACTED)
    return _TOKENS.sub(REDACTED, text)


def harmless(text: str) -> str:
    """Return a text that cannot steer a terminal: all but tab and line feed is made visible."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(value: object) -> object:
    """Return a value that JSON can say: harmless, bounded, with no object in it."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else repr(value)
        case dict():
            pairs = cast(dict[object, object], value).items()
            return {str(plain(name)): plain(item) for name, item in pairs}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in cast(Collection[object], value)]
        case _:
            text = redact(str(value))
            if len(text) > TEXT_LENGTH:
                text = f"{text[:TEXT_LENGTH]}… ({len(text)} characters)"
            return harmless(text)
