"""Who may see and do what: the matrix of 3.2, indirect access (3.3), and "not seen" (3.6)."""

from typing import Literal

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Tx

Action = Literal[
    "read", "say", "run", "interrupt", "approve", "answer", "branch", "invite", "manage"
]

MATRIX: dict[Role, frozenset[Action]] = {
    "owner": frozenset(
        {"read", "say", "run", "interrupt", "approve", "answer", "branch", "invite", "manage"}
    ),
    "member": frozenset({"read", "say", "run", "interrupt", "branch", "invite"}),
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

_STANDING = f"""
SELECT {THREAD_COLUMNS}, p.disabled_at,
    (SELECT role FROM grants WHERE target_type = 'thread' AND target_id = t.thread_id
        AND principal_id = p.principal_id),
    (SELECT role FROM grants WHERE target_type = 'thread' AND target_id = t.holder_id
        AND principal_id = p.principal_id),
    (SELECT role FROM grants WHERE target_type = 'system' AND target_id = ''
        AND principal_id = p.principal_id)
FROM threads t, principals p WHERE t.thread_id = ? AND p.principal_id = ?
"""


class Standing(msgspec.Struct, frozen=True):
    """A caller before a thread that it may read."""

    thread: ThreadRow
    kind: wire.PrincipalKind
    direct: Role | None
    """The role it was granted on the thread itself."""
    held: Role | None
    """The direct role, else the inherited one."""
    system_owner: bool

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


def standing(tx: Tx, caller: Caller, thread_id: str) -> Standing:
    """Return how the caller stands. Raises Problem 404 alike for unknown and unseen (3.6)."""
    row = tx.one(_STANDING, (thread_id, caller.id))
    if row is None:
        raise thread_not_found()
    *columns, disabled_at, direct, inherited, system = row
    if disabled_at is not None:
        raise principal_disabled()
    system_owner = caller.id == SYSTEM.id or system == "owner"
    held = direct or inherited
    if held is None and not system_owner:
        raise thread_not_found()
    return Standing(ThreadRow(*columns), caller.principal.kind, direct, held, system_owner)


def thread_not_found() -> Problem:
    """Return what is said of a thread that does not exist, or not for the caller."""
    return Problem(404, "thread_not_found", "no such thread")


def principal_not_found() -> Problem:
    """Return what is said of a principal that does not exist, or not for the caller."""
    return Problem(404, "principal_not_found", "no such principal")


def principal_disabled() -> Problem:
    """Return the refusal of everything a disabled principal asks."""
    return Problem(403, "principal_disabled", "this principal is disabled")


def unauthenticated() -> Problem:
    """Return the one refusal of a credential, whatever is wrong with it (2.2)."""
    return Problem(401, "unauthenticated", "a valid bearer token is needed")


def require_live(tx: Tx, caller: Caller, now: str) -> None:
    """Refuse a caller that lost its token or was disabled since it was identified (3.7)."""
    row = tx.one(
        "SELECT p.disabled_at, t.token_id, t.revoked_at, t.expires_at FROM principals p"
        " LEFT JOIN tokens t ON t.token_id = ? WHERE p.principal_id = ?",
        (caller.token_id, caller.id),
    )
    if row is None:
        raise unauthenticated()
    disabled_at, token_id, revoked_at, expires_at = row
    if disabled_at is not None:
        raise principal_disabled()
    if caller.token_id is not None and (
        token_id is None or revoked_at is not None or (expires_at is not None and expires_at <= now)
    ):
        raise unauthenticated()


def is_system_owner(tx: Tx, caller: Caller) -> bool:
    """Return whether the caller may do what only system owners may."""
    return caller.id == SYSTEM.id or _owns(tx, caller.id, "system", "")


def owns(tx: Tx, caller: Caller, principal_id: str) -> bool:
    """Return whether the caller is an owner of this principal."""
    return _owns(tx, caller.id, "principal", principal_id)


def _owns(tx: Tx, caller_id: str, target_type: str, target_id: str) -> bool:
    sql = (
        "SELECT 1 FROM grants WHERE target_type = ? AND target_id = ? AND principal_id = ?"
        " AND role = 'owner'"
    )
    return tx.one(sql, (target_type, target_id, caller_id)) is not None


class PrincipalRow(msgspec.Struct, frozen=True):
    """A principal as it is stored. The order is that of `PRINCIPAL_COLUMNS`."""

    principal_id: str
    kind: wire.PrincipalKind
    display_name: str | None
    avatar_url: str | None
    email: str | None
    discoverable: int
    open_to_invites: int
    created_at: str
    disabled_at: str | None
    grant_seq: int


PRINCIPAL_COLUMNS = ", ".join(f"p.{name}" for name in PrincipalRow.__struct_fields__)

_TOGETHER = """
SELECT 1 FROM grants a JOIN grants b ON b.target_type = 'thread' AND b.target_id = a.target_id
WHERE a.target_type = 'thread' AND a.principal_id = ? AND b.principal_id = ?
"""


class View(msgspec.Struct, frozen=True):
    """A principal that the caller may see, and why."""

    row: PrincipalRow
    is_self: bool
    owned: bool
    """The caller is one of its owners."""
    system_owner: bool
    """The caller is a system owner."""

    @property
    def governed(self) -> bool:
        """Return whether the caller is above this principal: an owner, or a system owner."""
        return self.owned or self.system_owner


def find_principal(tx: Tx, principal_id: str) -> PrincipalRow | None:
    """Return a principal, whoever asks."""
    sql = f"SELECT {PRINCIPAL_COLUMNS} FROM principals p WHERE p.principal_id = ?"
    row = tx.one(sql, (principal_id,))
    return None if row is None else PrincipalRow(*row)


def view(tx: Tx, caller: Caller, principal_id: str) -> View:
    """Return a principal the caller may see (2.6). Raises Problem 404 for any other."""
    row = find_principal(tx, principal_id)
    if row is None:
        raise principal_not_found()
    seen = View(
        row,
        is_self=caller.id == principal_id,
        owned=owns(tx, caller, principal_id),
        system_owner=is_system_owner(tx, caller),
    )
    if seen.is_self or seen.governed or row.discoverable or _together(tx, caller.id, principal_id):
        return seen
    raise principal_not_found()


def _together(tx: Tx, one_id: str, other_id: str) -> bool:
    return tx.one(_TOGETHER, (one_id, other_id)) is not None


def role_on(tx: Tx, caller: Caller, thread_id: str) -> tuple[Role | None, int]:
    """Return the effective role and the head of a thread; (None, 0) when it is not readable."""
    try:
        at = standing(tx, caller, thread_id)
    except Problem:
        return None, 0
    return at.role, at.thread.last_seq
