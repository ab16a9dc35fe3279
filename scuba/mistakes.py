"""Everything that is wrong with a JSON document, found in one reading, each with its place.

msgspec stops at the first mistake; a person who writes a configuration wants all of them.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import inspect

Mistake = tuple[str, str]
"""The JSON path ("" for the document) and what is wrong there."""

_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a whole number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "an object"),
)


UNREADABLE = object()
"""Stands for the value of a document that has none."""


def parse(data: bytes) -> tuple[object, list[Mistake]]:
    """Return the value of a JSON document, and what is wrong with its writing.

    The value is UNREADABLE when there is none; then there is at least one mistake.
    """
    found: list[Mistake] = []
    if data.startswith(b"\xef\xbb\xbf"):
        found.append(("", "begins with a byte order mark; save it as plain UTF-8"))
        data = data[3:]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return UNREADABLE, [*found, ("", f"is not UTF-8 at byte {error.start}")]
    try:
        return json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(pairs, found),
            parse_constant=lambda name: found.append(("", f"{name} is not JSON")),
        ), found
    except json.JSONDecodeError as error:
        return UNREADABLE, [*found, ("", _syntax(text, error))]
    except RecursionError:
        return UNREADABLE, [*found, ("", "is nested too deeply")]
    except ValueError:  # Python refuses to read numbers of thousands of digits
        return UNREADABLE, [*found, ("", "holds a number that is too long")]


def _object(pairs: list[tuple[str, Any]], found: list[Mistake]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in pairs:
        if name in value:
            found.append(("", f"{_quote(name)} stands twice in one object"))
        value[name] = item
    return value


def _syntax(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "is empty"
    before = text[: error.pos].rstrip()
    after = text[error.pos :].lstrip(", \t\r\n")
    where = f"line {error.lineno}, column {error.colno}"
    if before.endswith(",") and after[:1] in ("}", "]"):
        return f"has a trailing comma before {where}"
    if after[:1] in ("}", "]") and text[error.pos : error.pos + 1] == ",":
        return f"has a trailing comma at {where}"
    if text[error.pos : error.pos + 2] in ("//", "/*") or text[error.pos : error.pos + 1] == "#":
        return f"has a comment at {where}; JSON knows none"
    return f"is not JSON: {error.msg} at {where}"


def against(value: object, type_: type) -> list[Mistake]:
    """Return every way in which `value` is not a `type_`. Empty: msgspec will take it."""
    return list(_check(value, inspect.type_info(type_), ""))


def _check(value: object, kind: inspect.Type, path: str) -> Iterable[Mistake]:
    match kind:
        case inspect.Metadata(type=inner):
            yield from _check(value, inner, path)
        case inspect.UnionType(types=members):
            yield from _check_union(value, members, path)
        case inspect.StructType():
            yield from _check_struct(value, kind, path)
        case inspect.VarTupleType(item_type=item_type) if isinstance(value, list):
            for index, item in enumerate(cast(list[object], value)):
                yield from _check(item, item_type, f"{path}[{index}]")
        case inspect.DictType(value_type=value_type) if isinstance(value, dict):
            for name, item in cast(dict[str, object], value).items():
                yield from _check(item, value_type, f"{path}.{plain(name)}")
        case inspect.AnyType():
            return
        case inspect.LiteralType(values=values):
            yield from _check_choice(value, values, path)
        case _:
            yield from _check_scalar(value, kind, path)


def _check_union(value: object, members: tuple[inspect.Type, ...], path: str) -> Iterable[Mistake]:
    """Blame the value under the member whose kind it has; else name what would do."""
    others = [member for member in members if _shape(member) is not None]
    for member in members:
        if isinstance(member, inspect.LiteralType) and len(others) > 1 and value in member.values:
            return
        if isinstance(member, inspect.LiteralType) and len(others) > 1:
            continue  # a list or a number would do as well
        is_whole = _shape(member) is float and _kind_of(value) is int
        if _shape(member) is _kind_of(value) or is_whole:
            yield from _check(value, member, path)
            return
    wanted = " or ".join(map(_name, others))
    yield path, f"must be {wanted}, not {_describe(value)}"


def _check_struct(value: object, kind: inspect.StructType, path: str) -> Iterable[Mistake]:
    if not isinstance(value, dict):
        yield path, f"must be an object, not {_describe(value)}"
        return
    fields = {field.encode_name: field for field in kind.fields}
    names = cast(dict[str, object], value)
    for name, item in names.items():
        place = f"{path}.{plain(name)}" if path else plain(name)
        if name in fields:
            yield from _check(item, fields[name].type, place)
        else:
            yield place, f"is not known{_nearest(name, fields)}"
    for name, field in fields.items():
        if field.required and name not in names:
            yield (f"{path}.{name}" if path else name), "is missing"


def _check_choice(value: object, values: tuple[Any, ...], path: str) -> Iterable[Mistake]:
    if isinstance(value, str) and value in values:
        return
    choices = [str(choice) for choice in values]
    if isinstance(value, str) and (near := _nearest(value, choices)):
        yield path, f"{_quote(value)} is not one of {', '.join(choices)}{near}"
    else:
        yield path, f"must be one of {', '.join(choices)}, not {_describe(value)}"


def _check_scalar(value: object, kind: inspect.Type, path: str) -> Iterable[Mistake]:
    if isinstance(kind, inspect.FloatType) and _kind_of(value) is int:
        yield from _check_range(cast(int, value), kind, path)
    elif _shape(kind) is not _kind_of(value):
        yield path, f"must be {_name(kind)}, not {_describe(value)}"
    elif isinstance(kind, (inspect.IntType, inspect.FloatType)):
        yield from _check_range(cast(float, value), kind, path)
    elif isinstance(kind, inspect.StrType):
        yield from _check_text(cast(str, value), kind, path)


def _check_range(
    value: float, kind: inspect.IntType | inspect.FloatType, path: str
) -> Iterable[Mistake]:
    rules: tuple[tuple[float | None, Callable[[float, float], bool], str], ...] = (
        (kind.ge, lambda a, b: a >= b, "at least"),
        (kind.gt, lambda a, b: a > b, "more than"),
        (kind.le, lambda a, b: a <= b, "at most"),
        (kind.lt, lambda a, b: a < b, "less than"),
    )
    for bound, holds, words in rules:
        if bound is not None and not holds(value, bound):
            yield path, f"must be {words} {bound:g}, not {_describe(value)}"
            return
    if isinstance(value, float) and not math.isfinite(value):
        yield path, "is too big a number"


def _check_text(value: str, kind: inspect.StrType, path: str) -> Iterable[Mistake]:
    if any(0xD800 <= ord(char) <= 0xDFFF or char == "\0" for char in value):
        yield path, "holds U+0000 or half of a surrogate pair"
    elif kind.min_length and len(value.strip()) < kind.min_length:
        yield path, "is empty"
    elif kind.pattern and not re.search(kind.pattern, value):
        yield path, f"{_quote(value)} does not match {kind.pattern}"


def _nearest(name: str, names: Iterable[str]) -> str:
    lowered = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return f"; did you mean {lowered[near[0]]}?" if near else ""


def _shape(kind: inspect.Type) -> type | None:
    """Return the Python type of the JSON that a kind is written as; None for null."""
    match kind:
        case inspect.Metadata(type=inner):
            return _shape(inner)
        case inspect.BoolType():
            return bool
        case inspect.IntType():
            return int
        case inspect.FloatType():
            return float
        case inspect.VarTupleType():
            return list
        case inspect.StructType() | inspect.DictType():
            return dict
        case inspect.NoneType():
            return None
        case _:
            return str


def _kind_of(value: object) -> type | None:
    return next((kind for kind, _ in _KINDS if isinstance(value, kind)), None)


def _name(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(map(_quote, sorted(map(str, kind.values))))
    return dict(_KINDS).get(_shape(kind) or type(None), "null")


def _describe(value: object) -> str:
    """Say what a value is. Only numbers and truth values are shown: a text may be a secret."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return msgspec.json.encode(value).decode() if abs(value) < 2**63 else "so big a number"
    return dict(_KINDS)[_kind_of(value) or str]


def _quote(text: str) -> str:
    return json.dumps(text if len(text) <= 60 else text[:60] + "…")


def plain(name: str) -> str:
    """Return a name as it can stand in a path: quoted unless it is a simple word."""
    return name if re.fullmatch(r"[\w$-]{1,60}", name, re.ASCII) else _quote(name)
