"""What a client may append, looked at without the log: sizes, forms, chunks, contents (5, 6.2, 12).

A fault is kept, not raised: a repeat is recognised before anything else is said about it (6.2).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.chunks import CALL_OPENERS, check_chunk
from scuba.server.store.ids import KEY, RUN_ID, TOOL_CALL_ID, VENDOR_TYPE
from scuba.server.store.text import check_form, read_payload
from scuba.wire.payloads import APPENDED, SERVER_MADE, Approval, RunFinish, ToolResult

_ENVELOPE_BYTES = 64
"""About what an event needs on the wire beside its own texts."""


_SHAPES = {kind: shape for kind, shape in APPENDED.items() if kind != "message_part"}


class Draft(msgspec.Struct, kw_only=True):
    """An event on its way in: what it says, and what is wrong with it."""

    type: str
    payload: bytes
    run_id: str | None = None
    key: str | None = None
    digest: bytes | None = None
    """SHA-256 of the content as sent (6.2); None when it could not be read."""
    chunk_type: str | None = None
    tool_call_id: str | None = None
    """Of a decision or result; of a part only when it opens the call."""
    run_status: str | None = None
    """Of a `run_finished`."""
    fault: Problem | None = None


def read_drafts(
    body: wire.NewEvents, idempotency_key: str | None, limits: wire.Limits
) -> list[Draft]:
    """Return one draft for each event. Raises Problem for what concerns the batch as a whole."""
    sizes = list(map(_size, body.events))
    _check_batch(sizes, limits)
    keyless = all(event.key is None for event in body.events)
    drafts: list[Draft] = []
    for index, event in enumerate(body.events):
        key = event.key
        if idempotency_key is not None and keyless:
            key = f"{idempotency_key}#{index}"
        too_large = None if sizes[index] <= limits.event_bytes else _too_large(limits)
        drafts.append(_read(event, key, index, too_large))
    return drafts


def size_bytes(events: Sequence[wire.NewEvent]) -> int:
    """Return about what events take on the wire."""
    return sum(map(_size, events))


def _check_batch(sizes: Sequence[int], limits: wire.Limits) -> None:
    if not sizes:
        raise Problem(400, "invalid_event", "a batch has at least one event")
    if len(sizes) > limits.batch_events:
        raise Problem(413, "batch_too_large", f"more than {limits.batch_events} events")
    if sum(sizes) > limits.batch_bytes:
        raise Problem(413, "batch_too_large", f"more than {limits.batch_bytes} bytes")


def _size(event: wire.NewEvent) -> int:
    texts = len(event.type) + len(event.run_id or "") + len(event.key or "")
    return len(bytes(event.payload)) + texts + _ENVELOPE_BYTES


def _too_large(limits: wire.Limits) -> Problem:
    return Problem(413, "event_too_large", f"more than {limits.event_bytes} bytes")


def _read(event: wire.NewEvent, key: str | None, index: int, too_large: Problem | None) -> Draft:
    raw = _one_line(bytes(event.payload))
    draft = Draft(type=event.type, payload=raw, run_id=event.run_id, key=key)
    try:
        if too_large is not None:
            raise too_large
        payload, sorted_text = read_payload(raw)
        # Some faults are seen only after the digest: it must exist for whatever can be read.
        draft.digest = content_digest(event.type, event.run_id, sorted_text)
        _check_forms(draft)
        _check_payload(draft, payload)
    except Problem as fault:
        draft.fault = Problem(
            fault.status, fault.code, f"events[{index}]: {fault.detail}", index=index
        )
    return draft


def content_digest(type_: str, run_id: str | None, payload: bytes) -> bytes:
    """Return the hash by which a repeat is told from another event under the same key (6.2).

    It is taken of `[type, runId, payload]` as JSON with sorted names.
    """
    head = msgspec.json.encode((type_, run_id))
    return hashlib.sha256(b"%b,%b]" % (head[:-1], payload)).digest()


def _one_line(raw: bytes) -> bytes:
    """Return a payload that fits on a line: in JSON, line breaks stand only between tokens."""
    return raw.translate(_BLANKS) if b"\n" in raw or b"\r" in raw else raw


_BLANKS = bytes.maketrans(b"\n\r", b"  ")


def _check_forms(draft: Draft) -> None:
    if draft.key is not None:
        check_form("key", draft.key, KEY, "invalid_event")
    if draft.run_id is not None:
        check_form("runId", draft.run_id, RUN_ID, "invalid_event")
    if draft.type in SERVER_MADE:
        raise Problem(400, "invalid_event", f"only the server makes {draft.type}")
    if draft.type in _SHAPES and draft.run_id is None:
        raise Problem(400, "invalid_event", f"{draft.type} needs a runId")


def _check_payload(draft: Draft, payload: dict[str, Any]) -> None:
    shape = _SHAPES.get(draft.type)
    if draft.type == "message_part":
        _check_part(draft, payload)
    elif shape is not None:
        _check_shape(draft, payload, shape)
    elif VENDOR_TYPE.fullmatch(draft.type) is None:
        raise Problem(400, "invalid_event", "type is not one of chapter 5.2, nor x.<vendor>.<name>")


def _check_part(draft: Draft, payload: dict[str, Any]) -> None:
    chunk = check_chunk(payload.get("chunk"), "payload.chunk")
    draft.chunk_type = chunk["type"]
    if draft.chunk_type in CALL_OPENERS:
        draft.tool_call_id = chunk["toolCallId"]


def _check_shape(draft: Draft, payload: dict[str, Any], shape: type[wire.Struct]) -> None:
    try:
        told = msgspec.convert(payload, shape)
    except msgspec.ValidationError as error:
        raise Problem(400, "invalid_event", f"payload: {error}") from None
    if isinstance(told, RunFinish):
        draft.run_status = told.status
    elif isinstance(told, Approval | ToolResult):
        check_form("toolCallId", told.tool_call_id, TOOL_CALL_ID, "invalid_event")
        draft.tool_call_id = told.tool_call_id
