"""The fields that a UI message chunk must have, for each type we know (5.3)."""

from typing import Any, cast

import msgspec

from scuba.errors import Problem
from scuba.server.store.ids import TOOL_CALL_ID


class Needs(msgspec.Struct, frozen=True):
    """What a chunk of one type must have beside its type."""

    texts: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Fields that may hold anything, null too."""


NEEDS: dict[str, Needs] = {
    "text-start": Needs(("id",)),
    "text-delta": Needs(("id", "delta")),
    "text-end": Needs(("id",)),
    "reasoning-start": Needs(("id",)),
    "reasoning-delta": Needs(("id", "delta")),
    "reasoning-end": Needs(("id",)),
    "tool-input-start": Needs(("toolCallId", "toolName")),
    "tool-input-delta": Needs(("toolCallId", "inputTextDelta")),
    "tool-input-available": Needs(("toolCallId", "toolName"), ("input",)),
    "tool-input-error": Needs(("toolCallId", "toolName", "errorText"), ("input",)),
    "tool-approval-request": Needs(("approvalId", "toolCallId")),
    "tool-output-available": Needs(("toolCallId",), ("output",)),
    "tool-output-error": Needs(("toolCallId", "errorText")),
    "tool-output-denied": Needs(("toolCallId",)),
    "source-url": Needs(("sourceId", "url")),
    "source-document": Needs(("sourceId", "mediaType", "title")),
    "file": Needs(("url", "mediaType")),
    "start-step": Needs(),
    "finish-step": Needs(),
    "start": Needs(),
    "finish": Needs(),
    "abort": Needs(),
    "error": Needs(("errorText",)),
    "message-metadata": Needs((), ("messageMetadata",)),
    "data-*": Needs((), ("data",)),
}
"""By type; `data-*` is every type that begins so."""

CALL_OPENERS = {"tool-input-start", "tool-input-available"}
"""Chunks that make a tool call known, so that it can be decided and answered (5.7)."""

_NOTHING = Needs()
_SPEECH = {"text-start", "text-delta", "text-end", "file"}


def is_speech(chunk_type: str) -> bool:
    """Return whether everybody may post this chunk: text, file, data (3.2)."""
    return chunk_type in _SPEECH or chunk_type.startswith("data-")


def check_chunk(chunk: object, path: str) -> dict[str, Any]:
    """Return the chunk if it has what its type requires; types we do not know pass.

    Raises Problem `invalid_chunk` that names the field by its path.
    """
    if not isinstance(chunk, dict):
        raise _invalid(f"{path} must be an object")
    found = cast("dict[str, Any]", chunk)
    kind = found.get("type")
    if not isinstance(kind, str) or not kind:
        raise _invalid(f"{path}.type must be a text")
    needs = NEEDS["data-*"] if kind.startswith("data-") else NEEDS.get(kind, _NOTHING)
    for name in needs.texts:
        value = found.get(name)
        if not isinstance(value, str):
            raise _invalid(f"{path}.{name} must be a text")
        if name == "toolCallId" and TOOL_CALL_ID.fullmatch(value) is None:
            raise _invalid(f"{path}.{name} must be 1 to 256 characters, none of them a control")
    for name in needs.values:
        if name not in found:
            raise _invalid(f"{path}.{name} is missing")
    return found


def _invalid(detail: str) -> Problem:
    return Problem(400, "invalid_chunk", detail)
