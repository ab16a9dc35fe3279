"""The Anthropic Messages API, as far as a scripted model needs it: requests, replies, errors."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

Frame = dict[str, Any]

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}

_WORD = re.compile(r"\S+\s*|\s+")


# --- requests ----------------------------------------------------------------------------------


class Source(msgspec.Struct, frozen=True):
    """What a file block holds."""

    media_type: str = ""
    data: str = ""


class Block(msgspec.Struct, frozen=True):
    """A content block; only texts and files matter here."""

    type: str
    text: str = ""
    source: Source | None = None


class Turn(msgspec.Struct, frozen=True):
    """One message of a request: `user`, `assistant` or (reminders of the CLI) `system`."""

    role: str
    content: str | list[Block]

    @property
    def texts(self) -> list[str]:
        """Return its texts, without tool calls and results."""
        if isinstance(self.content, str):
            return [self.content]
        return [block.text for block in self.content if block.type == "text"]

    @property
    def files(self) -> list[Source]:
        """Return its images and documents."""
        if isinstance(self.content, str):
            return []
        return [block.source for block in self.content if block.source is not None]


class Request(msgspec.Struct, frozen=True):
    """The part of a Messages request that a script needs."""

    model: str
    messages: list[Turn]
    max_tokens: int
    stream: bool = False
    output_config: dict[str, Any] | None = None

    @property
    def is_side_call(self) -> bool:
        """Probes ask for one token; titles and names are asked for in a schema of their own."""
        return self.max_tokens == 1 or "format" in (self.output_config or {})


_decoder = msgspec.json.Decoder(Request)


def decode_request(body: bytes) -> Request:
    """Return the request in a body. Raises ValueError or RecursionError."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        # JavaScript writes half an emoji as a lone surrogate, which msgspec refuses.
        text = json.dumps(json.loads(body), ensure_ascii=False)
        return _decoder.decode(text.encode(errors="replace"))


# --- what a reply is made of -------------------------------------------------------------------


class Say(msgspec.Struct, frozen=True):
    """A text block."""

    text: str


class Think(msgspec.Struct, frozen=True):
    """A thinking block."""

    text: str


class Call(msgspec.Struct, frozen=True):
    """A tool call."""

    name: str
    input: dict[str, Any]


class Sleep(msgspec.Struct, frozen=True):
    """Silence, after what came before it was sent."""

    seconds: float


class Fail(msgspec.Struct, frozen=True):
    """The API's error instead of a reply, or in the middle of one; its message, if told."""

    status: int
    message: str | None = None


Spoken = Say | Think | Call
"""A step that becomes a content block."""
Step = Spoken | Sleep | Fail
Reply = tuple[Step, ...]
"""The steps of one model reply."""


# --- replies -----------------------------------------------------------------------------------


def new_id(kind: str) -> str:
    """Return a fresh id as the API makes them: `msg_…`, `toolu_…`, `req_…`."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"


def error_body(status: int, message: str | None = None) -> Frame:
    """Return the body of an error answer, which is a stream's error event as well."""
    kind = ERROR_TYPES[status]
    return {"type": "error", "error": {"type": kind, "message": message or f"scripted {kind}"}}


def whole(reply: Reply, model: str, tokens_in: int) -> Frame:
    """Return a reply as one message."""
    blocks = [_block(step) for step in reply if isinstance(step, Spoken)]
    message = _message(model, tokens_in)
    message["usage"]["output_tokens"] = _tokens_out(reply)
    return message | {"content": blocks, "stop_reason": _stop_reason(reply)}


def stream(reply: Reply, model: str, tokens_in: int) -> Iterator[Frame | Sleep]:
    """Yield a reply as the API's stream events, and the silences between them.

    A block ends when the next thing is said, so that a silence after it is one in its middle.
    """
    yield {"type": "message_start", "message": _message(model, tokens_in)}
    last: list[Frame] = []
    index = 0
    for step in reply:
        if isinstance(step, Sleep):
            yield step
            continue
        yield from last
        if isinstance(step, Fail):
            yield error_body(step.status, step.message)
            return
        yield from _block_frames(index, step)
        last = [{"type": "content_block_stop", "index": index}]
        index += 1
    yield from last
    stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": _tokens_out(reply)}}
    yield {"type": "message_stop"}


def _block_frames(index: int, step: Spoken) -> Iterator[Frame]:
    """Yield the start and the deltas of a block; its end comes later."""
    block = _block(step)
    deltas: list[Frame]
    match step:
        case Say(text):
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": word} for word in words(text)]
        case Think(text):
            empty = block | {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": word} for word in words(text)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case Call(_, value):
            empty = {**block, "input": Frame()}
            pieces = words(json.dumps(value))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}


def _block(step: Spoken) -> Frame:
    match step:
        case Say(text):
            return {"type": "text", "text": text}
        case Think(text):
            return {"type": "thinking", "thinking": text, "signature": "c2NyaXB0ZWQ="}
        case Call(name, value):
            return {"type": "tool_use", "id": new_id("toolu"), "name": name, "input": value}


def _message(model: str, tokens_in: int) -> Frame:
    usage = {
        "input_tokens": tokens_in,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if any(isinstance(step, Call) for step in reply) else "end_turn"


def _tokens_out(reply: Reply) -> int:
    spoken = [step.text for step in reply if isinstance(step, Say | Think)]
    called = [str(step.input) for step in reply if isinstance(step, Call)]
    return 1 + sum(len(text) for text in spoken + called) // 4


def words(text: str) -> list[str]:
    """Return a text in pieces as a model streams it; joined, they are the text."""
    return _WORD.findall(text)
