"""Schemas of what an event holds: each type's payload, each chunk that we know (5.2, 5.3)."""

from typing import Any

from msgspec import structs

from scuba.server.description.forms import FORMS, Schema, form
from scuba.server.store.chunks import NEEDS, Needs
from scuba.server.store.ids import VENDOR_TYPE
from scuba.wire.payloads import APPENDED, SERVER_MADE

PAYLOADS = {**APPENDED, **SERVER_MADE}
_BARE = {"message_part"}
"""Types that need no runId: the server gives one (5.4)."""


def ref(name: str) -> Schema:
    """Return the pointer to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def chunk_name(chunk_type: str) -> str:
    """Return the name under which a chunk is defined."""
    return f"chunk.{chunk_type.removesuffix('-*')}"


def chunks() -> dict[str, Schema]:
    """Return a definition for each chunk that we know, and `Chunk`, which is any."""
    known = {chunk_name(kind): _chunk(kind, needs) for kind, needs in NEEDS.items()}
    names = [kind for kind in NEEDS if not kind.endswith("*")]
    unknown: Schema = {
        "description": "A chunk of a type that is not known here; it is kept as it is.",
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "type": "string",
                "minLength": 1,
                "not": {"anyOf": [{"enum": names}, {"pattern": "^data-"}]},
            }
        },
    }
    every: Schema = {
        "description": "A UI message chunk of the Vercel AI SDK (5.3).",
        "anyOf": [*map(ref, known), unknown],
    }
    return {**known, "Chunk": every}


def _chunk(kind: str, needs: Needs) -> Schema:
    tag: Schema = {"const": kind}
    if kind.endswith("*"):
        tag = {"type": "string", "pattern": f"^{kind.removesuffix('*')}"}
    texts = {name: {"type": "string", **_form(name)} for name in needs.texts}
    return {
        "type": "object",
        "required": ["type", *needs.texts, *needs.values],
        "properties": {"type": tag, **texts, **{name: {} for name in needs.values}},
    }


def _form(name: str) -> Schema:
    return FORMS[name] if name == "toolCallId" else {}


def tell_kept(envelope: Schema) -> None:
    """Say of a committed event what its payload is, by its type; of others it is any object."""
    envelope["properties"]["payload"] = {"type": "object"}
    envelope["required"] = sorted({*envelope["required"], "payload"})
    told = [_kept(kind) for kind in PAYLOADS]
    envelope["anyOf"] = [*told, {"properties": {"type": {"not": {"enum": list(PAYLOADS)}}}}]


def _kept(kind: str) -> Schema:
    return {"properties": {"type": {"const": kind}, "payload": ref(PAYLOADS[kind].__name__)}}


def tell_new(event: Schema) -> None:
    """Say of an event to append what type it may have, and what that type needs (6.1)."""
    event["properties"]["payload"] = {"type": ["object", "null"]}
    event["anyOf"] = [*map(_new, APPENDED), _vendor()]


def _new(kind: str) -> Schema:
    payload = APPENDED[kind]
    needed: list[str] = [] if kind in _BARE else ["runId"]
    told: dict[str, Any] = {"type": {"const": kind}}
    if needed:
        told["runId"] = {"type": "string"}
    if any(field.required for field in structs.fields(payload)):
        needed.append("payload")
        told["payload"] = ref(payload.__name__)
    else:
        told["payload"] = {"anyOf": [ref(payload.__name__), {"type": "null"}]}
    return {"required": needed, "properties": told}


def _vendor() -> Schema:
    return {"properties": {"type": form(VENDOR_TYPE)}}
