"""Bytes from outside become structs, or one refusal that says where and what (1.2).

The document is read strictly first, since msgspec alone would let a doubled name, a NUL and deep
nesting pass. Nesting is measured on the bytes, before anything recursive looks at them.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from scuba import wire
from scuba.errors import Problem

T = TypeVar("T", bound=msgspec.Struct)

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_BAD_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
SHOWN_CHARACTERS = 200
"""As much of the way to a fault is told; names in it may be as long as the document."""
_INDEX = re.compile(r"\$\.events\[(\d+)\]")


def strict(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`. Raises Problem `invalid_json` or `invalid_text`."""
    _check_nesting(raw)
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


def decode(raw: bytes, kind: type[T]) -> T:
    """Return `raw` as a `kind`; null counts as absent unless the field gives it a meaning.

    Raises Problem `invalid_json` or `invalid_text`.
    """
    nullable = _nullable(kind)
    document = {k: v for k, v in strict(raw).items() if v is not None or k in nullable}
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_json", str(error)) from None


class _LoneEvent(wire.NewEvent, frozen=True, kw_only=True):
    """A single event in place of a list (6.1)."""

    expected_seq: int | None = None
    log_epoch: str | None = None


_BATCH = msgspec.json.Decoder(wire.NewEvents)
_LONE = msgspec.json.Decoder(_LoneEvent)


def decode_events(raw: bytes) -> wire.NewEvents:
    """Return what to append; payloads stay byte for byte. Problem `invalid_event` has the index."""
    document = strict(raw)
    try:
        if "events" in document:
            return _without_nulls(_BATCH.decode(raw))
        lone = _LONE.decode(raw)
    except msgspec.ValidationError as error:
        where = _index(str(error))
        raise Problem(400, "invalid_event", str(error), **where) from None
    event = wire.NewEvent(type=lone.type, run_id=lone.run_id, payload=lone.payload, key=lone.key)
    return _without_nulls(
        wire.NewEvents(events=[event], expected_seq=lone.expected_seq, log_epoch=lone.log_epoch)
    )


def _without_nulls(batch: wire.NewEvents) -> wire.NewEvents:
    if all(bytes(event.payload) != b"null" for event in batch.events):
        return batch
    absent = msgspec.Raw(b"{}")
    events = [
        msgspec.structs.replace(event, payload=absent) if bytes(event.payload) == b"null" else event
        for event in batch.events
    ]
    return msgspec.structs.replace(batch, events=events)


def decode_query(pairs: list[tuple[str, str]], kind: type[T]) -> T:
    """Return the query as a `kind`. Raises Problem `invalid_query` that names the parameter."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Problem(400, "invalid_query", f"{name} is given twice")
        found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_query", str(error).replace("$.", "")) from None


def _check_nesting(raw: bytes) -> None:
    if raw.count(b"[") + raw.count(b"{") <= wire.MAX_NESTING:
        return
    depth = 0
    for bracket in _STRING.sub(b"", raw).translate(None, _NOT_BRACKET):
        depth += 1 if bracket in b"[{" else -1
        if depth > wire.MAX_NESTING:
            raise Problem(400, "invalid_json", f"nested deeper than {wire.MAX_NESTING}")


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
    if "\0" in text:
        raise _unstorable(f"U+0000 in {what}", way)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unstorable(f"lone surrogate in {what}", way) from None


def _unstorable(what: str, way: Sequence[str]) -> Problem:
    path = "".join(("$", *way))[:SHOWN_CHARACTERS]
    return Problem(400, "invalid_text", what + path, **_index(path))


def _index(path: str) -> dict[str, int]:
    found = _INDEX.search(path)
    return {"index": int(found[1])} if found else {}


@cache
def _nullable(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the fields for which null means something other than absent."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(
        field.encode_name
        for field in info.fields
        if isinstance(field.type, msgspec.inspect.UnionType) and field.type.includes_none
    )
