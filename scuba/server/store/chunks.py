"""The fields that a UI message chunk must have, for each type we know (5.3)."""

from typing import Any, cast

from scuba.errors import Problem
from scuba.server.store.ids import TOOL_CALL_ID

_TEXTS: dict[str, tuple[str, ...]] = {
    "text-start": ("id",),
    "text-delta": ("id", "delta"),
    "text-end": ("id",),
    "reasoning-start": ("id",),
    "reasoning-delta": ("id", "delta"),
    "reasoning-end": ("id",),
    "tool-input-start": ("toolCallId", "toolName"),
    "tool-input-delta": ("toolCallId", "inputTextDelta"),
    "tool-input-available": ("toolCallId", "toolName"),
    "tool-input-error": ("toolCallId", "toolName", "errorText"),
    "tool-approval-request": ("approvalId", "toolCallId"),
    "tool-output-available": ("toolCallId",),
    "tool-output-error": ("toolCallId", "errorText"),
    "tool-output-denied": ("toolCallId",),
    "source-url": ("sourceId", "url"),
    "source-document": ("sourceId", "mediaType", "title"),
    "file": ("url", "mediaType"),
    "error": ("errorText",),
}
_ANYTHING: dict[str, str] = {
    "tool-input-available": "input",
    "tool-input-error": "input",
    "tool-output-available": "output",
    "message-metadata": "messageMetadata",
}
CALL_OPENERS = {"tool-input-start", "tool-input-available"}
"""Chunks that make a tool call known, so that it can be decided and answered (5.7)."""

_SPEECH = {"text-start", "text-delta", "text-end", "file"}


def is_speech(chunk_type: str) -> bool:
    """Return whether everybody may post this chunk: text, file, data (3.2)."""
    return chunk_type in _SPEECH or chunk_type.startswith("data-")


def check_chunk(chunk: object, path: str) -> dict[str, Any]:
    """Return the chunk if it has what its type requires; types we do not know pass.

    Raises Problem `invalid_chunk` that names the field by its path.
    """
    if not isinstance(chunk, dict):
        raise Problem(400, "invalid_chunk", f"{path} must be an object")
    found = cast("dict[str, Any]", chunk)
    kind = found.get("type")
    if not isinstance(kind, str) or not kind:
        raise Problem(400, "invalid_chunk", f"{path}.type must be a text")
    for name in _TEXTS.get(kind, ()):
        value = found.get(name)
        if not isinstance(value, str):
            raise Problem(400, "invalid_chunk", f"{path}.{name} must be a text")
        if name == "toolCallId" and TOOL_CALL_ID.fullmatch(value) is None:
            raise Problem(400, "invalid_chunk", f"{path}.{name} must be 1 to 256 characters")
    needed = "data" if kind.startswith("data-") else _ANYTHING.get(kind)
    if needed is not None and needed not in found:
        raise Problem(400, "invalid_chunk", f"{path}.{needed} is missing")
    return found
