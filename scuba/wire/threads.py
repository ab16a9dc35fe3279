"""Threads, subthreads and who is on them: chapter 4."""

import msgspec

from actors.events import Role
from scuba.wire.base import Access, PrincipalKind, Struct, Title


class Thread(Struct, frozen=True, kw_only=True):
    """A thread as the caller sees it; `role` is the caller's own (4.1)."""

    thread_id: str
    parent_thread_id: str | None = None
    title: str | None = None
    access: Access = "direct"
    members_can_invite: bool = True
    created_by: str
    created_at: str
    archived_at: str | None = None
    first_seq: int
    last_seq: int
    last_event_at: str | None = None
    role: Role | None = None


class Participant(Struct, frozen=True, kw_only=True):
    """A direct grant on a thread, with whom it is (4.3)."""

    principal_id: str
    role: Role
    kind: PrincipalKind
    display_name: str | None = None
    joined_seq: int


class ActiveRun(Struct, frozen=True, kw_only=True):
    """A run without its finish (4.3)."""

    run_id: str
    principal_id: str
    started_seq: int


class ThreadView(Struct, frozen=True, kw_only=True):
    """`GET /v1/threads/:threadId` (4.3); creating answers only `thread`."""

    thread: Thread
    participants: list[Participant] = []
    active_runs: list[ActiveRun] = []


class NewThread(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads` (4.2)."""

    title: Title | None = None
    key: str | None = None
    members_can_invite: bool = True


class Origin(Struct, frozen=True, kw_only=True):
    """The call on the parent thread that a subthread belongs to (4.2)."""

    run_id: str
    tool_call_id: str


class NewSubthread(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/subthreads` (4.2)."""

    key: str | None = None
    title: Title | None = None
    access: Access = "inherit"
    origin: Origin | None = None


class ThreadChange(Struct, frozen=True, kw_only=True):
    """`PATCH /v1/threads/:threadId` (4.3). UNSET leaves a field, None clears it."""

    title: Title | msgspec.UnsetType | None = msgspec.UNSET
    members_can_invite: bool | msgspec.UnsetType = msgspec.UNSET
    access: Access | msgspec.UnsetType = msgspec.UNSET
    archived_at: str | msgspec.UnsetType | None = msgspec.UNSET
