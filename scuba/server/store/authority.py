"""Who may see and do what: the matrix of 3.2, indirect access (3.3), and "not seen" (3.6)."""

from typing import Literal, get_args

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Row, Tx
from scuba.server.store.refusals import principal_disabled, thread_not_found

Action = Literal[
    "read",
    "say",
    "run",
    "interrupt",
    "approve",
    "answer",
    "branch",
    "write artifacts",
    "invite",
    "manage",
]

MATRIX: dict[Role, frozenset[Action]] = {
    "owner": frozenset(get_args(Action)),
    "member": frozenset({"read", "say", "run", "interrupt", "branch", "write artifacts", "invite"}),
    "approver": frozenset({"read", "say", "interrupt", "approve"}),
    "tool_runner": frozenset({"read", "say", "answer"}),
    "commenter": frozenset({"read", "say"}),
}
_NOT_AS_BOT_OWNER: frozenset[Action] = frozenset({"approve", "answer"})
"""A bot owns each subthread it opens; that must not let it decide about another bot's calls."""


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread as it is stored. The order is that of `THREAD_COLUMNS`."""

    thread_id: str
    parent_thread_id: str | None
    holder_id: str
    """The thread whose participants reach this one: itself, or an ancestor (3.3)."""
    depth: int
    title: str | None
    access: wire.Access
    members_can_invite: int
    created_by: str
    created_at: str
    archived_at: str | None
    first_seq: int
    last_seq: int
    last_event_at: str

    def seen_as(self, role: Role | None) -> wire.Thread:
        """Return the thread as the wire shows it to somebody with this role."""
        return wire.Thread(
            thread_id=self.thread_id,
            parent_thread_id=self.parent_thread_id,
            title=self.title,
            access=self.access,
            members_can_invite=bool(self.members_can_invite),
            created_by=self.created_by,
            created_at=self.created_at,
            archived_at=self.archived_at,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            last_event_at=self.last_event_at,
            role=role,
        )


THREAD_COLUMNS = ", ".join(f"t.{name}" for name in ThreadRow.__struct_fields__)

STANDING_COLUMNS = f"""{THREAD_COLUMNS}, p.kind, p.disabled_at,
    (SELECT role FROM grants WHERE target_type = 'thread' AND target_id = t.thread_id
        AND principal_id = p.principal_id),
    (SELECT role FROM grants WHERE target_type = 'thread' AND target_id = t.holder_id
        AND principal_id = p.principal_id),
    (SELECT role FROM grants WHERE target_type = 'system' AND target_id = ''
        AND principal_id = p.principal_id)"""
"""What `read_standing` reads, of a thread `t` and a principal `p`."""

_STANDING = f"""
SELECT {STANDING_COLUMNS} FROM threads t, principals p
WHERE t.thread_id = ? AND p.principal_id = ?
"""


class Standing(msgspec.Struct, frozen=True):
    """A principal before a thread."""

    thread: ThreadRow
    kind: wire.PrincipalKind
    disabled: bool
    direct: Role | None
    """The role it was granted on the thread itself."""
    held: Role | None
    """The direct role, else the inherited one."""
    system_owner: bool

    @property
    def readable(self) -> bool:
        """Return whether the thread is there for it at all (3.6)."""
        return self.held is not None or self.system_owner

    @property
    def role(self) -> Role:
        """Return the role it appears in: a system owner without another counts as owner."""
        return self.held or "owner"

    def acting(self, action: Action) -> Role | None:
        """Return the role in which it may do this, or None."""
        if self.held is not None and self._may(self.held, action):
            return self.held
        return "owner" if self.system_owner and self._may("owner", action) else None

    def require(self, action: Action) -> Role:
        """Return the role in which it may do this. Raises Problem 403 `forbidden`."""
        role = self.acting(action)
        if role is None:
            raise Problem(403, "forbidden", f"the role {self.role} may not {action} here")
        return role

    def require_open(self) -> None:
        """Raise Problem 409 on an archived thread (4.3)."""
        if self.thread.archived_at is not None:
            raise Problem(409, "thread_archived", "the thread is archived")

    def _may(self, role: Role, action: Action) -> bool:
        if self.kind == "bot" and role == "owner" and action in _NOT_AS_BOT_OWNER:
            return False
        if action == "invite" and role == "member":
            return bool(self.thread.members_can_invite)
        return action in MATRIX[role]


def read_standing(principal_id: str, row: Row) -> Standing:
    """Return what a row of `STANDING_COLUMNS` says: direct grant, else inherited, else S (3.3)."""
    *columns, kind, disabled_at, direct, inherited, system = row
    return Standing(
        ThreadRow(*columns),
        kind,
        disabled_at is not None,
        direct,
        direct or inherited,
        principal_id == SYSTEM.id or system == "owner",
    )


def find_standing(tx: Tx, principal_id: str, thread_id: str) -> Standing | None:
    """Return how a principal stands, in one query; None when it or the thread does not exist."""
    row = tx.one(_STANDING, (thread_id, principal_id))
    return None if row is None else read_standing(principal_id, row)


def standing(tx: Tx, caller: Caller, thread_id: str) -> Standing:
    """Return how the caller stands. Raises Problem 404 alike for unknown and unseen (3.6)."""
    at = find_standing(tx, caller.id, thread_id)
    if at is None or not at.readable:
        raise thread_not_found()
    if at.disabled:
        raise principal_disabled()
    return at


def role_on(tx: Tx, caller: Caller, thread_id: str) -> tuple[Role | None, int]:
    """Return the effective role and the head of a thread; (None, 0) when it is not readable."""
    at = find_standing(tx, caller.id, thread_id)
    if at is None or not at.readable or at.disabled:
        return None, 0
    return at.role, at.thread.last_seq
