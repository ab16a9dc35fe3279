"""The lines a Claude Code CLI writes, as structs, and `decode`, which never raises.

Only what is read here has a field. A field is required when the frame means nothing without it.
"""

from typing import Any

import msgspec

from scuba.harness.claude.values import load


class Gone(Exception):
    """The CLI cannot be spoken to any more."""


class Frame(msgspec.Struct, tag_field="type", kw_only=True):
    """One line of stdout. Unknown fields are ignored."""


class Delta(msgspec.Struct):
    """More of a content block that is being streamed."""

    type: str = ""
    text: str = ""
    thinking: str = ""


class BlockStart(msgspec.Struct):
    """The content block that begins, mostly without a text yet."""

    type: str = ""
    text: str = ""
    thinking: str = ""


class MessageStart(msgspec.Struct):
    """The message that begins."""

    id: str = ""


class ApiEvent(msgspec.Struct):
    """One event of the model's own stream."""

    type: str
    index: int = 0
    delta: Delta | None = None
    content_block: BlockStart | None = None
    message: MessageStart | None = None


class Block(msgspec.Struct):
    """A whole content block. `input` and `content` stay as they came."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: str = ""
    content: msgspec.Raw = msgspec.Raw()
    is_error: bool | None = None


class Message(msgspec.Struct):
    """A message of the conversation, or (from the assistant) one block of it."""

    content: str | list[Block]
    id: str = ""
    model: str = ""


class StreamEvent(Frame, tag="stream_event"):
    """A piece of the model's stream; only with partial messages."""

    event: ApiEvent
    parent_tool_use_id: str | None = None
    abandoned_blocks: Any = None
    """Set at the end of a message that broke off: what was streamed of it is void."""


class Assistant(Frame, tag="assistant"):
    """A complete content block of the model. `error`: the CLI wrote it, about a failure."""

    message: Message
    parent_tool_use_id: str | None = None
    error: str | None = None
    api_error: Any = None
    """A finer class than `error`, for some."""


class Verdict(msgspec.Struct):
    """What became of the permission for a call."""

    decision: str = ""


class ToolMeta(msgspec.Struct):
    """What the CLI knows of one tool result beside its content."""

    id: str = ""
    permission_decision: Verdict | None = None


class User(Frame, tag="user"):
    """Tool results, and echoes of prompts, which are not read."""

    message: Message
    parent_tool_use_id: str | None = None
    tool_result_meta: list[ToolMeta] | None = None


class Result(Frame, tag="result"):
    """The end of a turn, as the CLI counts turns (facts: `num_turns` 0 is none)."""

    subtype: str = ""
    is_error: bool = False
    terminal_reason: str | None = None
    stop_reason: str | None = None
    result: str | None = None
    num_turns: int = 0
    errors: list[Any] | None = None
    api_error_status: int | None = None
    user_message_uuid: str | None = None
    user_message_uuids: list[str] | None = None
    origin: Any = None
    session_id: str = ""
    total_cost_usd: Any = None
    """Of the process since its start."""
    model_usage: Any = msgspec.field(default=None, name="modelUsage")
    """Likewise, by model."""
    duration_ms: Any = None

    @property
    def is_of_a_task(self) -> bool:
        """Return whether the turn answered the report of a background task."""
        match self.origin:
            case {"kind": "task-notification"}:
                return True
            case _:
                return False


class System(Frame, tag="system"):
    """Everything the CLI says about itself; subtypes are many, few are read."""

    subtype: str
    session_id: str = ""
    state: Any = None
    attempt: Any = None
    max_retries: Any = None
    retry_delay_ms: Any = None
    error_status: Any = None
    task_id: Any = None
    tool_use_id: Any = None
    is_backgrounded: Any = None
    status: Any = None
    tasks: Any = None
    compact_result: Any = None
    compact_metadata: Any = None
    mcp_servers: Any = None
    plugin_errors: Any = None


class Lifecycle(Frame, tag="command_lifecycle"):
    """How far a prompt of ours has come: queued, started, completed, cancelled."""

    command_uuid: str
    state: str


class RateLimit(msgspec.Struct):
    """Where an account stands against its limit. `resets_at`: seconds since 1970."""

    status: str = ""
    kind: str = msgspec.field(default="", name="rateLimitType")
    resets_at: float | None = msgspec.field(default=None, name="resetsAt")


class RateLimitEvent(Frame, tag="rate_limit_event"):
    """The account's limit came nearer, was reached, or was lifted."""

    rate_limit_info: RateLimit


class Ask(msgspec.Struct):
    """The body of a control request; the fields are those of `can_use_tool`."""

    subtype: str
    tool_name: str = ""
    tool_use_id: str | None = None
    agent_id: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class ControlRequest(Frame, tag="control_request"):
    """The CLI asks something of the SDK."""

    request_id: str
    request: Ask

    @property
    def tool_call_id(self) -> str:
        """Return the call a permission is asked for; by the request's own id if none is named."""
        return self.request.tool_use_id or self.request_id


class ControlCancel(Frame, tag="control_cancel_request"):
    """The CLI has given up on a request of its own."""

    request_id: str


class Reply(msgspec.Struct):
    """The answer to a control request of ours or of the SDK's."""

    subtype: str
    request_id: str
    response: Any = None
    error: Any = None


class ControlResponse(Frame, tag="control_response"):
    """Carries a `Reply`."""

    response: Reply


class Other(Frame, tag=False):
    """A type or shape not read here, or (`data` None) a line that is no JSON object."""

    data: dict[str, Any] | None
    line: bytes

    @property
    def kind(self) -> str | None:
        """Return the type the line names, if it does."""
        kind = self.data.get("type") if self.data else None
        return kind if isinstance(kind, str) else None


class Exited(Frame, tag=False):
    """Always the last frame. `returncode`: negative for a signal, None when unknown."""

    returncode: int | None
    stderr: list[str]
    asked: bool
    """We closed the session."""
    error: str = ""
    code: str = ""
    """The class of failure, when it was found out otherwise than from what the CLI says."""


_FRAMES: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(
    StreamEvent
    | Assistant
    | User
    | Result
    | System
    | Lifecycle
    | RateLimitEvent
    | ControlRequest
    | ControlCancel
    | ControlResponse
)


def decode(line: bytes) -> Frame:
    """Return the frame of one line. Whatever cannot be read is `Other`; nothing is raised."""
    try:
        return _FRAMES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = load(line)
    if data is None:
        return Other(data=None, line=line)
    try:
        return _FRAMES.decode(msgspec.json.encode(data))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, OverflowError):
        return Other(data=data, line=line)
