"""The one rule for JSON and text from outside (1.2): bodies, frames and payloads alike.

What msgspec lets pass — a doubled name, a NUL, an integer that others round, deep nesting — is
refused. Most documents show by their bytes that they hold nothing of the kind, and are read once,
in C; the others are looked at slowly, and told where and what is wrong.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import msgspec

from scuba import wire
from scuba.errors import Problem

SHOWN_CHARACTERS = 200
"""As much of the way to a fault is told; names in it may be as long as the document."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_BAD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_ODD_ESCAPE = re.compile(rb"\\u(?:00(?:00|22|3[aA])|[dD][89a-fA-F])")
"""One that makes a character which is none, or a quote or colon that the bytes do not show."""
_DIGITS = bytes(48 if chr(byte).isdecimal() and byte < 128 else 32 for byte in range(256))
_LONG_INTEGER = b"0" * 16
_NAME_END = b'":'
_INDEX = re.compile(r"\$\.events\[(\d+)\]")
_DECODER = msgspec.json.Decoder()
_ENCODER = msgspec.json.Encoder(order="sorted")


def strict(raw: bytes, nesting: int = wire.MAX_NESTING) -> dict[str, Any]:
    """Return the JSON object in `raw`. Raises Problem `invalid_json` or `invalid_text`."""
    return canonical(raw, nesting)[0]


def canonical(raw: bytes, nesting: int = wire.MAX_NESTING) -> tuple[dict[str, Any], bytes]:
    """Return the same, and its text with sorted names. Raises as `strict` does."""
    if is_shallow(raw, nesting) and is_even(raw):
        told = _read_plain(raw)
        if told is not None:
            return told
    found = _read_slowly(raw, nesting)
    return found, _ENCODER.encode(found)


def is_shallow(raw: bytes, nesting: int) -> bool:
    """Return whether there are too few brackets to nest deeper."""
    return raw.count(b"[") + raw.count(b"{") <= nesting


def is_even(raw: bytes) -> bool:
    """Return whether nothing in these bytes calls for a closer look, but for doubled names."""
    if b"\\u" in raw and _ODD_ESCAPE.search(raw) is not None:
        return False
    if b" :" in raw or b"\n:" in raw or b"\t:" in raw or b"\r:" in raw:
        return False
    return _LONG_INTEGER not in raw.translate(_DIGITS)


def brackets(raw: bytes) -> int:
    """Return how many brackets are opened, those in texts included."""
    return raw.count(b"[") + raw.count(b"{")


def name_ends(raw: bytes) -> int:
    """Return how many names there are in bytes that are even; more if texts look like names."""
    return raw.count(_NAME_END)


def _read_plain(raw: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Return what even bytes hold, None when that has to be found out slowly.

    Written again, a document has as many names as before, unless one of them was doubled: the
    bytes are even, so each name, and each text that looks like one, is found on both sides.
    """
    try:
        found: object = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(found, dict):
        return None
    again = _ENCODER.encode(found)
    if again.count(_NAME_END) != raw.count(_NAME_END):
        return None
    return cast("dict[str, Any]", found), again


# --- slowly ------------------------------------------------------------------------------------


def _read_slowly(raw: bytes, nesting: int) -> dict[str, Any]:
    _check_nesting(raw, nesting)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "invalid_text", f"not UTF-8 at byte {error.start}") from None
    try:
        document = json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        raise Problem(400, "invalid_json", f"{error.msg} at character {error.pos}") from None
    if not isinstance(document, dict):
        raise Problem(400, "invalid_json", "the top is not an object")
    found = cast("dict[str, Any]", document)
    if _BAD_ESCAPE.search(raw):  # nothing else can bring a NUL or a lone surrogate this far
        _check_text(found)
    return found


def _check_nesting(raw: bytes, nesting: int) -> None:
    """Measure it on the bytes, before anything recursive looks at them."""
    if is_shallow(raw, nesting):
        return
    depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > nesting:
            raise Problem(400, "invalid_json", f"nested deeper than {nesting}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise Problem(400, "invalid_json", f"the name {twice[:100]!r} is twice in one object")
    return found


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > wire.MAX_INTEGER:
        raise Problem(400, "invalid_json", f"the integer {digits[:20]} is beyond ±(2^53 - 1)")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Problem(400, "invalid_json", f"the number {digits[:20]} is too large")
    return value


def _no_constant(name: str) -> NoReturn:
    raise Problem(400, "invalid_json", f"{name} is not JSON")


# --- text --------------------------------------------------------------------------------------


def storable(text: str) -> bool:
    """Return whether a text is free of U+0000 and lone surrogates."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_text(value: object, *way: str) -> None:
    """Refuse a text that cannot be stored; `way` are the steps down to `value`."""
    if isinstance(value, str):
        _check_string(value, "", way)
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            _check_string(name, "a name in ", way)
            _check_text(inner, *way, f".{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            _check_text(inner, *way, f"[{index}]")


def _check_string(text: str, what: str, way: Sequence[str]) -> None:
    if storable(text):
        return
    fault = "U+0000" if "\0" in text else "lone surrogate"
    path = "".join(("$", *way))[:SHOWN_CHARACTERS]
    raise Problem(400, "invalid_text", f"{fault} in {what}{path}", **index_in(path))


def index_in(path: str) -> dict[str, int]:
    """Return the `index` that a refusal has when its path goes through an event of a batch."""
    found = _INDEX.search(path)
    return {"index": int(found[1])} if found else {}
