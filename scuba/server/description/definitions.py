"""Every definition by its name: structs as msgspec sees them, and what structs cannot say."""

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any, cast, get_args

import msgspec

from scuba import wire
from scuba.server.description import events
from scuba.server.description.events import PAYLOADS, ref
from scuba.server.description.forms import Schema, add_forms
from scuba.server.http.table import OPEN_TABLE, TABLE, Bytes, Content, Described, ListOf
from scuba.wire.payloads import APPENDED, RunAgent, RunParent, RunTrigger, ThreadUpdated

CLIENT_FRAMES: tuple[type[wire.Frame], ...] = get_args(wire.ClientFrame)
SERVER_FRAMES: tuple[type[wire.Frame], ...] = get_args(wire.ServerFrame)
_APPENDABLE: tuple[type[msgspec.Struct], ...] = (wire.NewEvent, wire.LoneEvent)
_MAY_BE_NULL: tuple[type[msgspec.Struct], ...] = (
    ThreadUpdated,
    wire.Target,
    wire.Origin,
    RunTrigger,
    RunParent,
    RunAgent,
    *APPENDED.values(),
)
"""In that event null says that something was cleared; the others travel in requests too."""


def calls() -> Iterator[Described]:
    """Yield every method of every route."""
    yield from OPEN_TABLE.values()
    for by_method in TABLE.values():
        yield from by_method.values()


def structs(contents: tuple[Content, ...]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in what a call takes or answers."""
    for content in contents:
        if isinstance(content, ListOf):
            yield content.item
        elif not isinstance(content, Bytes):
            yield content


def requests() -> set[type[msgspec.Struct]]:
    """Return the bodies that clients send."""
    return {kind for call in calls() for kind in structs(call.body)}


def answers() -> set[type[msgspec.Struct]]:
    """Return the bodies that the server sends."""
    return {k for call in calls() for told in call.answers.values() for k in structs(told)}


def definitions() -> dict[str, Schema]:
    """Return every definition, new and the caller's own. References go to `#/$defs/NAME`."""
    return deepcopy(_definitions())


@cache
def _definitions() -> dict[str, Schema]:
    kinds: list[Any] = [*CLIENT_FRAMES, *SERVER_FRAMES, *PAYLOADS.values(), *_APPENDABLE]
    kinds += [*requests(), *answers(), wire.Envelope, wire.ProblemBody]
    ordered = sorted(set(kinds), key=lambda kind: kind.__name__)
    _, found = msgspec.json.schema_components(ordered, ref_template="#/$defs/{name}")
    made = cast("dict[str, Schema]", found)
    asked = {kind.__name__ for kind in {*requests(), *CLIENT_FRAMES, *_APPENDABLE}}
    may_be_null = {kind.__name__ for kind in _MAY_BE_NULL}
    for name, schema in made.items():
        if name in asked:
            _take_null_as_absent(schema)
        elif name not in may_be_null:
            _leave_out_null(schema)
        add_forms(schema.get("properties", {}))
    events.tell_kept(made["Envelope"])
    for kind in _APPENDABLE:
        events.tell_new(made[kind.__name__])
    made["MessagePart"]["properties"]["chunk"] = ref("Chunk")
    made["NewEvents"]["properties"]["events"]["minItems"] = 1
    made["ServerEvents"]["properties"]["events"] |= {"minItems": 1, "maxItems": 200}
    return {**made, **events.chunks(), **_frames(), **_lists()}


def _frames() -> dict[str, Schema]:
    """Return the two unions; a reader skips a frame of a type that it does not know."""
    return {
        "ClientFrame": {"anyOf": [ref(kind.__name__) for kind in CLIENT_FRAMES]},
        "ServerFrame": {"anyOf": [ref(kind.__name__) for kind in SERVER_FRAMES]},
    }


def list_name(item: type[msgspec.Struct]) -> str:
    """Return the name under which a list of these is defined."""
    return f"ListOf{item.__name__}"


def _lists() -> dict[str, Schema]:
    contents = [c for call in calls() for told in call.answers.values() for c in told]
    return {list_name(c.item): _list(c.item) for c in contents if isinstance(c, ListOf)}


def _list(item: type[msgspec.Struct]) -> Schema:
    properties: Schema = {
        "items": {"type": "array", "items": ref(item.__name__)},
        "nextCursor": {"type": "string"},
    }
    if item is wire.Grant:
        properties["grantSeq"] = {"type": "integer"}
    return {"type": "object", "required": ["items"], "properties": properties}


def _take_null_as_absent(schema: Schema) -> None:
    """Let null stand wherever a field may be left out (1.2)."""
    for name, told in schema["properties"].items():
        if name not in schema.get("required", ()) and not _takes_null(told):
            schema["properties"][name] = {"anyOf": [told, {"type": "null"}]}


def _takes_null(told: Schema) -> bool:
    return {"type": "null"} in told.get("anyOf", []) or not told


def _leave_out_null(schema: Schema) -> None:
    """What the server sends has no null: what is absent is left out (1.2)."""
    for name, told in schema.get("properties", {}).items():
        if told.get("default", "") is None:
            del told["default"]
        rest = [one for one in told.get("anyOf", []) if one != {"type": "null"}]
        if len(rest) == 1:
            schema["properties"][name] = {**told, **rest[0]}
            del schema["properties"][name]["anyOf"]
        elif rest:
            told["anyOf"] = rest
