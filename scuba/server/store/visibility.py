"""Which principals a caller sees, which it is above, and whether it is still one itself (2.6)."""

import msgspec

from scuba import wire
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Tx
from scuba.server.store.refusals import (
    principal_disabled,
    principal_not_found,
    unauthenticated,
)


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
    ends_at = expires_at or caller.expires_at
    unknown = caller.token_id is not None and token_id is None
    if unknown or revoked_at is not None or (ends_at is not None and ends_at <= now):
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
