"""From what stands on the wire to what actors see; whatever an author sent, a reader goes on."""

import json
import re
from typing import Any, TypeVar

import msgspec

from actors.events import (
    ApprovalGiven,
    Body,
    Event,
    InterruptRequested,
    Part,
    ResultGiven,
    RunFinished,
    RunStarted,
    Unknown,
)
from scuba.wire.events import Envelope

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")
_HALF = re.compile(r"\\u[dD][89abcdefABCDEF]|\N{REPLACEMENT CHARACTER}")
_BODIES: dict[str, msgspec.json.Decoder[Any]] = {
    "message_part": msgspec.json.Decoder(Part),
    "run_started": msgspec.json.Decoder(RunStarted),
    "run_finished": msgspec.json.Decoder(RunFinished),
    "run_interrupt_requested": msgspec.json.Decoder(InterruptRequested),
    "tool_call_approval": msgspec.json.Decoder(ApprovalGiven),
    "tool_call_result": msgspec.json.Decoder(ResultGiven),
}


def to_event(envelope: Envelope) -> Event:
    """Return what actors see of an envelope. Never raises: what cannot be read is `Unknown`."""
    return Event(
        seq=envelope.seq,
        principal_id=envelope.principal_id,
        body=_body(envelope.type, envelope.payload),
        run_id=envelope.run_id,
        role=envelope.role,
        bare_left=envelope.bare_left,
    )


def _body(kind: str, payload: msgspec.Raw) -> Body:
    decoder = _BODIES.get(kind)
    if decoder is None:
        return Unknown()
    try:
        body: Body = decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A run begins and ends whatever else its events say, or it would never be final.
        marks: dict[str, Body] = {"run_started": RunStarted(), "run_finished": RunFinished()}
        return marks.get(kind, Unknown())
    return body


def decode(decoder: msgspec.json.Decoder[T], data: bytes | str) -> T:
    """Return what a peer sent. Raises msgspec.DecodeError.

    msgspec refuses half a character, which JavaScript writes when it cuts an emoji; here it costs
    only itself and becomes U+FFFD.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        if not _HALF.search(text):
            raise
        try:
            whole = json.dumps(json.loads(text), ensure_ascii=False)
        except (ValueError, RecursionError):
            raise error from None
        return decoder.decode(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", whole))
