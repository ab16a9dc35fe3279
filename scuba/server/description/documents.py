"""JSON Schema documents (2020-12): all of the protocol in one, or one thing by its name."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from scuba import wire
from scuba.server.description.definitions import (
    CLIENT_FRAMES,
    SERVER_FRAMES,
    answers,
    definitions,
    requests,
)
from scuba.server.description.events import PAYLOADS, chunk_name
from scuba.server.description.forms import Schema
from scuba.server.store.chunks import NEEDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
GROUPS = ("frames", "events", "chunks", "bodies")


def names() -> dict[str, dict[str, str]]:
    """Return what has a schema, by group: its name on the wire, and that of its definition."""
    frames = {str(kind.__struct_config__.tag): kind.__name__ for kind in _frames()}
    events = {kind: payload.__name__ for kind, payload in PAYLOADS.items()}
    bodies = {kind.__name__: kind.__name__ for kind in _bodies()}
    return {
        "frames": {**frames, "ClientFrame": "ClientFrame", "ServerFrame": "ServerFrame"},
        "events": {**events, "Envelope": "Envelope", "NewEvent": "NewEvent"},
        "chunks": {**{kind: chunk_name(kind) for kind in NEEDS}, "Chunk": "Chunk"},
        "bodies": dict(sorted(bodies.items())),
    }


def _frames() -> tuple[type[wire.Frame], ...]:
    return (*CLIENT_FRAMES, *SERVER_FRAMES)


def _bodies() -> set[type[msgspec.Struct]]:
    return requests() | answers() | {wire.ProblemBody}


def document(name: str | None = None) -> Schema:
    """Return all definitions in one document, or the schema of one name with what it needs.

    Raises KeyError when there is no such name.
    """
    every = definitions()
    head: Schema = {"$schema": DIALECT}
    if name is None:
        title = f"Bubble wire protocol {wire.PROTOCOL}"
        return {**head, "$id": "urn:bubble:schema", "title": title, "$defs": every}
    found = next(group[name] for group in _groups_with(name))
    needed = {one: every[one] for one in reachable(every[found], every)}
    return {**head, "$id": f"urn:bubble:schema:{name}", **every[found], "$defs": needed}


def _groups_with(name: str) -> Iterator[dict[str, str]]:
    found = [group for group in names().values() if name in group]
    if not found:
        raise KeyError(name)
    yield from found


def reachable(schema: Schema, every: dict[str, Schema]) -> list[str]:
    """Return the names of the definitions that a schema refers to, however indirectly."""
    seen: set[str] = set()
    todo = list(_references(schema))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _references(every[name])
    return sorted(seen)


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        if isinstance(inner.get("$ref"), str):
            yield inner["$ref"].rpartition("/")[2]
        for one in inner.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _references(one)


def written() -> dict[str, Schema]:
    """Return every document by the path of its file, the whole as `bubble.json`."""
    files = {"bubble.json": document()}
    for group, members in names().items():
        for name in members:
            files[f"{group}/{name.replace('*', 'any')}.json"] = document(name)
    return files
