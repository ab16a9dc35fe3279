"""The reference of every key: the tables of docs/configuration.md, made of the structs themselves.

`python -m scuba.reference PAGE` writes anew what stands between the marks of a page; the rest of
the page is written by hand. What a key means is the docstring below its field.
"""

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from inspect import getdoc, getsource
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import inspect

from scuba.reference_examples import BOT, SERVER
from scuba.server.settings import ServerSettings
from scuba.settings import Claude, Settings, TokenRef

CHAPTERS: dict[str, tuple[type[msgspec.Struct], dict[str, Any]]] = {
    "bot": (Settings, BOT),
    "server": (ServerSettings, SERVER),
}
"""What is between the marks of each name, and an example for each section of it."""
MARKED = re.compile(r"(<!-- keys of a (\w+):[^\n]*-->\n).*?(<!-- end of keys -->)", re.DOTALL)
UNITS = (("Seconds", "seconds"), ("Bytes", "bytes"), ("perSecond", "a second"))
EXAMPLE_WIDTH = 76
HEAD = "| key | takes | default | what it is |\n|---|---|---|---|"


class Key(NamedTuple):
    """One row: a key's path, what it takes, what it is without being given, and what it is for."""

    path: str
    takes: str
    default: str
    text: str


def page(text: str) -> str:
    """Return a page with the tables between its marks made anew."""
    return MARKED.sub(lambda mark: f"{mark[1]}\n{chapter(*CHAPTERS[mark[2]])}\n{mark[3]}", text)


def chapter(struct: type[msgspec.Struct], examples: dict[str, Any]) -> str:
    """Return the tables of all that a struct has, a section each; what has none comes last."""
    fields = msgspec.structs.fields(struct)
    sections = [field for field in fields if _struct_of(field) is not None]
    parts = [_section(struct, field, examples[field.encode_name]) for field in sections]
    alone = [field for field in fields if field not in sections]
    rows = [row for field in alone for row in _keys(struct, field)]
    more = {field.encode_name: examples.get(field.encode_name) for field in alone}
    example = _example({name: value for name, value in more.items() if value is not None})
    return "\n".join([*parts, f"#### All by themselves\n\n{_table(rows)}\n\n{example}"])


def keys(struct: type[msgspec.Struct]) -> list[Key]:
    """Return every key of a struct, as the tables have them."""
    fields = msgspec.structs.fields(struct)
    return [row for field in fields for row in _keys(struct, field)]


def _section(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo, example: Any) -> str:  # noqa: ANN401  # JSON
    name = field.encode_name
    rows = list(_keys(struct, field))
    told = rows if rows[0].takes != "object" else rows[1:]
    shown = _example({name: example})
    return f"#### `{name}`\n\n{_about(struct, field)}\n\n{_table(told)}\n\n{shown}\n"


def _keys(
    struct: type[msgspec.Struct],
    field: msgspec.structs.FieldInfo,
    path: str = "",
    value: object = msgspec.NODEFAULT,
) -> Iterator[Key]:
    """Yield the row of a field and those of what is in it. `value`: its default, if above."""
    place = f"{path}.{field.encode_name}" if path else field.encode_name
    default = field.default if value is msgspec.NODEFAULT else value
    kind = inspect.type_info(field.type)
    yield Key(
        place, _takes(kind, field.encode_name), _default(field, default), _about(struct, field)
    )
    for suffix, inner in _inside(kind):
        if inner is Claude and suffix:
            continue  # told already: a thread has what all threads have
        for one in msgspec.structs.fields(inner):
            known = getattr(default, one.name, msgspec.NODEFAULT)
            yield from _keys(inner, one, place + suffix, known)


def _inside(kind: inspect.Type) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Yield the structs that a value may hold, each with what stands between in a path."""
    match kind:
        case inspect.StructType(cls=cls):
            yield "", cls
        case inspect.UnionType(types=members):
            for member in members:
                yield from _inside(member)
        case inspect.VarTupleType(item_type=item):
            yield from ((f"[]{suffix}", cls) for suffix, cls in _inside(item))
        case inspect.DictType(value_type=item):
            yield from ((f".NAME{suffix}", cls) for suffix, cls in _inside(item))
        case _:
            return


def _struct_of(field: msgspec.structs.FieldInfo) -> type[msgspec.Struct] | None:
    found = [cls for suffix, cls in _inside(inspect.type_info(field.type)) if not suffix]
    return found[0] if found and found[0] is not TokenRef else None


# --- words -------------------------------------------------------------------------------------


def _takes(kind: inspect.Type, name: str, unit: str = "") -> str:
    match kind:
        case inspect.Metadata():
            extra: dict[str, str] = cast(Any, kind).extra or {}
            return _takes(kind.type, name, extra.get("unit", ""))
        case inspect.UnionType(types=members):
            real = [member for member in members if not isinstance(member, inspect.NoneType)]
            return " or ".join(_takes(member, name, unit) for member in real)
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case inspect.BoolType():
            return "`true`, `false`"
        case inspect.IntType() | inspect.FloatType():
            return _number(kind, unit or next((u for end, u in UNITS if name.endswith(end)), ""))
        case inspect.VarTupleType(item_type=item):
            return f"list: {_takes(item, '')}"
        case inspect.DictType(value_type=value):
            return f"object: name to {_takes(value, '')}"
        case inspect.StructType():
            return "object"
        case _:
            return "text"


def _number(kind: inspect.IntType | inspect.FloatType, unit: str) -> str:
    """Return what a number counts, and between which bounds."""
    words = unit or ("whole number" if isinstance(kind, inspect.IntType) else "number")
    rules = ((kind.ge, "from"), (kind.gt, "more than"), (kind.le, "to"), (kind.lt, "less than"))
    bounds = [f"{rule} {bound:,.15g}" for bound, rule in rules if bound is not None]
    return ", ".join([words, " ".join(bounds)] if bounds else [words])


def _default(field: msgspec.structs.FieldInfo, value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, msgspec.Struct):
        return "`{}`"
    if value is not msgspec.NODEFAULT:
        told = round(value, 4) if isinstance(value, float) else value
        return f"`{msgspec.json.encode(told).decode().removesuffix('.0')}`"
    return "needed" if field.required else f"`{json.dumps(field.default_factory())}`"


def _about(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> str:
    """Return the docstring of a field; of a section without one, that of its struct."""
    told = _docstrings(struct).get(field.name)
    if told is None:
        kind = _struct_of(field)
        told = getdoc(kind) if kind is not None else None
    assert told, f"{struct.__name__}.{field.name} has no docstring"
    return re.sub(r" \(\d+(\.\d+)?\)", "", " ".join(told.split("\n\n")[0].split()))


def _docstrings(struct: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    (body,) = ast.parse(textwrap.dedent(getsource(struct))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(told))
            ):
                found[name] = told
            case _:
                pass
    return found


def _table(rows: list[Key]) -> str:
    lines = [f"| `{row.path}` | {row.takes} | {row.default} | {row.text} |" for row in rows]
    return "\n".join([HEAD, *lines])


def _example(value: dict[str, Any]) -> str:
    return f"```json\n{_pretty(value, '', always=True)}\n```"


def _pretty(value: object, indent: str, *, always: bool = False) -> str:
    """Return JSON as people write it: what fits on a line stays on one, but with `always`."""
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or (len(whole) <= EXAMPLE_WIDTH and not always):
        return whole
    deeper = f"{indent}  "
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        lines = [f"{json.dumps(name)}: {_pretty(item, deeper)}" for name, item in items]
    else:
        lines = [_pretty(item, deeper) for item in cast("list[object]", value)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    inside = ",\n".join(deeper + line for line in lines)
    return f"{first}\n{inside}\n{indent}{last}"


def main() -> None:
    """Write a page anew where it is; its path is the only argument."""
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text()))


if __name__ == "__main__":
    main()
