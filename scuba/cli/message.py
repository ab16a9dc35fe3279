"""A person's message as the events of one batch (5.4). No I/O."""

import uuid

import msgspec

from actors.events import AnyChunk, PartPayload, TextDelta, TextEnd, TextStart
from scuba.errors import UsageError
from scuba.wire import NewEvent

DELTA_LENGTH = 32_000
"""Characters of one event; four bytes each, and escaped, still fit below the limit (12)."""
MESSAGE_BYTES = 900_000

_PART = "t"


def bare_message(text: str) -> list[NewEvent]:
    """Return the events of a bare message, each with a key. Raises UsageError."""
    if not text.strip():
        raise UsageError("there is nothing to say", "give a text, or - to read it from stdin")
    if "\0" in text or not _is_unicode(text):
        raise UsageError("the text is not UTF-8, or holds U+0000")
    if len(msgspec.json.encode(text)) > MESSAGE_BYTES:
        raise UsageError(f"the text is longer than {MESSAGE_BYTES} bytes", "put it in a file")
    run_id = f"msg_{uuid.uuid4().hex}"
    deltas = [text[at : at + DELTA_LENGTH] for at in range(0, len(text), DELTA_LENGTH)]
    chunks: list[AnyChunk] = [TextStart(_PART), *(TextDelta(_PART, d) for d in deltas)]
    chunks.append(TextEnd(_PART))
    return [
        NewEvent(
            type="message_part",
            run_id=run_id,
            payload=msgspec.Raw(msgspec.json.encode(PartPayload(chunk))),
            key=f"{run_id}/{number}",
        )
        for number, chunk in enumerate(chunks)
    ]


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)
