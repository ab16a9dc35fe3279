"""The vocabulary of a thread: what was seen on it, and what we add to it.

Seen events are lenient (another author wrote them, 1.3); drafts are strict (we wrote them, 5.3).
Chapter numbers are those of the Bubble wire protocol, `docs/protocol.md`.
"""

from typing import Any, Literal

import msgspec

Role = Literal["owner", "member", "commenter", "approver", "tool_runner"]
RunStatus = Literal["completed", "interrupted", "failed"]
NoticeLevel = Literal["info", "warning", "error"]


class Value(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An immutable value that can stand on the wire."""


# --- seen: the part of an event that a reader needs -------------------------------------------


class SeenChunk(Value, frozen=True, kw_only=True):
    """A UI message chunk by any author. Fields of other chunk types are ignored."""

    type: str
    id: str | None = None
    delta: str | None = None
    tool_call_id: str | None = None
    media_type: str | None = None
    filename: str | None = None
    url: str | None = None


class Part(Value, frozen=True):
    """`message_part`: one chunk of a run or of a bare message (5.2, 5.3)."""

    chunk: SeenChunk


class Trigger(Value, frozen=True):
    """Why a run began: the input it answers was final up to and with `through_seq` (5.2)."""

    through_seq: int | None = None
    task_id: str | None = None
    """The background task whose report it answers."""


class RunStarted(Value, frozen=True):
    """`run_started` (5.2)."""

    trigger: Trigger | None = None


class RunFinished(Value, frozen=True):
    """`run_finished` (5.2). An unknown status is kept as it came."""

    status: str = "completed"
    through_seq: int | None = None


class InterruptRequested(Value, frozen=True):
    """`run_interrupt_requested`: somebody asks to stop the run named by the event (5.2)."""

    reason: str | None = None


class ApprovalGiven(Value, frozen=True):
    """`tool_call_approval`: somebody allows or denies a call (5.2, 5.7)."""

    tool_call_id: str
    decision: Literal["allow", "deny"]
    reason: str | None = None
    updated_input: dict[str, Any] | None = None
    scope: str | None = None
    """`run`: further calls of the same tool in this run are allowed with it."""


class ResultGiven(Value, frozen=True):
    """`tool_call_result`: somebody answers a call in the tool's place (5.2, 5.7)."""

    tool_call_id: str
    output: Any = None
    is_error: bool = False


class Unknown(Value, frozen=True):
    """An event of a type or shape we do not read. The cursor moves over it (1.3)."""


Body = Part | RunStarted | RunFinished | InterruptRequested | ApprovalGiven | ResultGiven | Unknown


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One committed event of a thread, as a reader sees it (5.1)."""

    seq: int
    principal_id: str
    body: Body
    run_id: str | None = None
    role: str | None = None
    """The author's role at commit; only on approvals, results and interrupts."""
    bare_left: int | None = None
    """Events of this bare message still to come; None when the event is not part of one (5.4)."""


# --- drafts: what we append -------------------------------------------------------------------


class Chunk(Value, frozen=True, kw_only=True, tag_field="type"):
    """A UI message chunk of the AI SDK, written by us (5.3)."""


class TextStart(Chunk, frozen=True, tag="text-start"):
    """Opens a text part."""

    id: str


class TextDelta(Chunk, frozen=True, tag="text-delta"):
    """More text of an open part. Adjacent deltas of one id may be merged until they leave."""

    id: str
    delta: str


class TextEnd(Chunk, frozen=True, tag="text-end"):
    """Closes a text part."""

    id: str


class ReasoningStart(Chunk, frozen=True, tag="reasoning-start"):
    """Opens a part of the model's thinking."""

    id: str


class ReasoningDelta(Chunk, frozen=True, tag="reasoning-delta"):
    """More thinking of an open part."""

    id: str
    delta: str


class ReasoningEnd(Chunk, frozen=True, tag="reasoning-end"):
    """Closes a part of the model's thinking."""

    id: str


class ToolMetadata(Value, frozen=True):
    """What a reader built on the AI SDK keeps of a call beside its input (5.3.4)."""

    child_thread_id: str


class ToolInputAvailable(Chunk, frozen=True, tag="tool-input-available"):
    """A tool call with its whole input. `child_thread_id`: where its sub-agent works (5.3.4)."""

    tool_call_id: str
    tool_name: str
    input: Any
    child_thread_id: str | None = None
    tool_metadata: ToolMetadata | None = None


class ToolApprovalRequest(Chunk, frozen=True, tag="tool-approval-request"):
    """The call waits for somebody's decision; `approval_id` equals `tool_call_id` (5.3.3)."""

    approval_id: str
    tool_call_id: str


class ToolOutputAvailable(Chunk, frozen=True, tag="tool-output-available"):
    """The one outcome of a call that ran."""

    tool_call_id: str
    output: Any


class ToolOutputError(Chunk, frozen=True, tag="tool-output-error"):
    """The one outcome of a call that failed or was stopped."""

    tool_call_id: str
    error_text: str


class ToolOutputDenied(Chunk, frozen=True, tag="tool-output-denied"):
    """The one outcome of a call that somebody denied."""

    tool_call_id: str


class Notice(Value, frozen=True):
    """What a bot says about its work: people see it, no bot takes it for a prompt (5.3.6)."""

    level: NoticeLevel
    code: str
    text: str


class Usage(Value, frozen=True, kw_only=True):
    """What a run used, by the harness's own count."""

    model: str | None = None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float
    duration_ms: int


class DataUsage(Chunk, frozen=True, tag="data-usage"):
    """What the run used; only where people asked for it (5.3.7)."""

    data: Usage


class DataNotice(Chunk, frozen=True, tag="data-notice"):
    """The chunk that carries a `Notice`."""

    data: Notice


AnyChunk = (
    TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputAvailable
    | ToolApprovalRequest
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | DataNotice
    | DataUsage
)


class Parent(Value, frozen=True):
    """The call that a sub-agent's run belongs to. `thread_id` is known once it is sent (5.2)."""

    run_id: str
    tool_call_id: str
    thread_id: str = ""


class Agent(Value, frozen=True, kw_only=True):
    """Who does the work of a run (5.2)."""

    name: str
    harness: str
    model: str | None = None


class PartPayload(Value, frozen=True):
    """Payload of our `message_part`."""

    chunk: AnyChunk


class RunStartedPayload(Value, frozen=True, kw_only=True):
    """Payload of our `run_started`."""

    trigger: Trigger | None = None
    parent: Parent | None = None
    agent: Agent | None = None


class RunFinishedPayload(Value, frozen=True, kw_only=True):
    """Payload of our `run_finished`. `reason` is at most 2,000 characters."""

    status: RunStatus
    reason: str | None = None
    through_seq: int | None = None


Payload = PartPayload | RunStartedPayload | RunFinishedPayload | msgspec.Raw
DraftType = Literal["message_part", "run_started", "run_finished"]


class Opens(msgspec.Struct, frozen=True):
    """A call needs a subthread: it is there before anybody sees the call."""

    tool_call_id: str
    title: str


class Draft(msgspec.Struct, frozen=True):
    """An event of ours before it is committed. It gets its key when it leaves (6.2)."""

    type: DraftType
    run_id: str
    payload: Payload
    opens: Opens | None = None


def part(run_id: str, chunk: AnyChunk) -> Draft:
    """Return the draft of a `message_part` of `run_id`."""
    return Draft("message_part", run_id, PartPayload(chunk))
