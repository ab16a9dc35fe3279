"""What stands in `payload`, for each type of event that we know (5.2)."""

from typing import Any, Literal

from actors.events import Role
from scuba.wire.artifacts import ArtifactVersionAdded
from scuba.wire.base import Access, Reason, Struct
from scuba.wire.threads import Origin


class MessagePart(Struct, frozen=True, kw_only=True):
    """One chunk of a message; what each type of chunk needs is in 5.3."""

    chunk: dict[str, Any]


class RunTrigger(Struct, frozen=True, kw_only=True):
    """What a run answers."""

    through_seq: int | None = None
    task_id: str | None = None


class RunParent(Struct, frozen=True, kw_only=True):
    """The call that a run on a subthread belongs to."""

    thread_id: str
    run_id: str
    tool_call_id: str


class RunAgent(Struct, frozen=True, kw_only=True):
    """Who does the work of a run, and with what."""

    name: str
    harness: str
    model: str | None = None


class RunStart(Struct, frozen=True, kw_only=True):
    """`run_started`."""

    trigger: RunTrigger | None = None
    parent: RunParent | None = None
    agent: RunAgent | None = None


class RunFinish(Struct, frozen=True, kw_only=True):
    """`run_finished`."""

    status: Literal["completed", "interrupted", "failed"]
    reason: Reason | None = None
    through_seq: int | None = None
    usage: dict[str, Any] | None = None


class Interrupt(Struct, frozen=True, kw_only=True):
    """`run_interrupt_requested`."""

    reason: Reason | None = None


class Approval(Struct, frozen=True, kw_only=True):
    """`tool_call_approval`."""

    tool_call_id: str
    decision: Literal["allow", "deny"]
    reason: Reason | None = None
    updated_input: dict[str, Any] | None = None
    scope: Literal["once", "run"] | None = None


class ToolResult(Struct, frozen=True, kw_only=True):
    """`tool_call_result`; without `output` it is null."""

    tool_call_id: str
    output: Any = None
    is_error: bool | None = None


class ThreadCreated(Struct, frozen=True, kw_only=True):
    """`thread_created`."""

    parent_thread_id: str | None = None
    origin: Origin | None = None


class ThreadUpdated(Struct, frozen=True, kw_only=True):
    """`thread_updated`: what has changed, null for what was cleared."""

    title: str | None = None
    archived_at: str | None = None
    members_can_invite: bool | None = None
    access: Access | None = None


class ParticipantIs(Struct, frozen=True, kw_only=True):
    """`participant_joined` and `participant_role_changed`."""

    principal_id: str
    role: Role
    by: str


class ParticipantLeft(Struct, frozen=True, kw_only=True):
    """`participant_left`."""

    principal_id: str
    by: str
    cause: Literal["revoked", "left", "disabled"]


APPENDED: dict[str, type[Struct]] = {
    "message_part": MessagePart,
    "run_started": RunStart,
    "run_finished": RunFinish,
    "run_interrupt_requested": Interrupt,
    "tool_call_approval": Approval,
    "tool_call_result": ToolResult,
}
"""What clients append, beside `x.<vendor>.<name>`."""

SERVER_MADE: dict[str, type[Struct]] = {
    "thread_created": ThreadCreated,
    "thread_updated": ThreadUpdated,
    "participant_joined": ParticipantIs,
    "participant_role_changed": ParticipantIs,
    "participant_left": ParticipantLeft,
    "artifact_version_added": ArtifactVersionAdded,
}
"""What only the server appends."""
