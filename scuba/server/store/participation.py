"""What joining, changing role and leaving leave behind: grant, event, grant log, ended runs.

Nothing here asks who may; that was decided before (`grants`, `threads`, `principals`).
"""

from typing import Literal

import msgspec

from actors.events import Role
from scuba import wire
from scuba.server.store.audit import audit
from scuba.server.store.changes import AccessChanged, GrantChanged
from scuba.server.store.dead_runs import end_dead_runs
from scuba.server.store.engine import Tx, Write
from scuba.server.store.log import server_event
from scuba.server.store.targets import target_id

GrantAction = Literal["granted", "changed", "revoked"]
LeftCause = Literal["revoked", "left", "disabled"]


def join(w: Write, by: str, thread_id: str, principal_id: str, role: Role) -> wire.Grant:
    """Make somebody a participant. Returns the grant.

    A direct role counts before an inherited one, and may be the smaller of the two. Who is
    disabled is gone at once, and joins when it is enabled.
    """
    seq = _say_joined(w, by, thread_id, principal_id, role)
    target = wire.Target(type="thread", thread_id=thread_id)
    grant = add_grant(w, by, target, principal_id, role, joined_seq=seq)
    end_dead_runs(w, author=principal_id, thread_id=thread_id)
    if _is_disabled(w, principal_id):
        _say_left(w, by, thread_id, principal_id, "disabled")
    return grant


def add_grant(
    w: Write,
    by: str,
    target: wire.Target,
    principal_id: str,
    role: Role,
    joined_seq: int | None = None,
) -> wire.Grant:
    """Store a grant that was not there, and log it for its principal."""
    grant = wire.Grant(
        target=target,
        principal_id=principal_id,
        role=role,
        granted_by=by,
        created_at=w.now,
        joined_seq=joined_seq,
    )
    w.run(
        "INSERT INTO grants (target_type, target_id, principal_id, role, granted_by, created_at,"
        " joined_seq) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (target.type, target_id(target), principal_id, role, by, w.now, joined_seq),
    )
    log_grant(w, "granted", grant)
    audit(w, by, "grant", principal_id, f"{role} on {target.type} {target_id(target)}")
    return grant


def change_role(w: Write, by: str, grant: wire.Grant, role: Role) -> wire.Grant:
    """Give a participant another role; it stays joined since when it was. Returns the grant."""
    assert grant.principal_id is not None
    thread_id = target_id(grant.target)
    told = {"principalId": grant.principal_id, "role": role, "by": by}
    w.run(
        "UPDATE grants SET role = ? WHERE target_type = 'thread' AND target_id = ?"
        " AND principal_id = ?",
        (role, thread_id, grant.principal_id),
    )
    changed = msgspec.structs.replace(grant, role=role)
    w.tell(AccessChanged(grant.principal_id, thread_id))
    log_grant(w, "changed", changed)
    end_dead_runs(w, author=grant.principal_id, thread_id=thread_id)
    server_event(w, thread_id, by, "participant_role_changed", told)
    audit(w, by, "change", grant.principal_id, f"{role} on thread {thread_id}")
    return changed


def leave(w: Write, by: str, thread_id: str, principal_id: str) -> None:
    """End a participation: nothing of the thread is for this principal from here on (3.7)."""
    remove_grant(w, by, wire.Target(type="thread", thread_id=thread_id), principal_id)
    cause: LeftCause = "left" if by == principal_id else "revoked"
    _say_left(w, by, thread_id, principal_id, cause)


def remove_grant(w: Write, by: str, target: wire.Target, principal_id: str) -> None:
    """Delete a grant that is there, and log it for its principal. Its dead runs end (5.6)."""
    w.run(
        "DELETE FROM grants WHERE target_type = ? AND target_id = ? AND principal_id = ?",
        (target.type, target_id(target), principal_id),
    )
    on_thread = target.thread_id if target.type == "thread" else None
    w.tell(AccessChanged(principal_id, on_thread))
    log_grant(w, "revoked", wire.Grant(target=target, principal_id=principal_id))
    audit(w, by, "revoke", principal_id, f"{target.type} {target_id(target)}")
    if target.type != "principal":
        end_dead_runs(w, author=principal_id, thread_id=on_thread)


def suspend(w: Write, by: str, principal_id: str) -> None:
    """End the runs of a disabled principal, and say on its threads that it is gone (5.6).

    Its grants stay, so that it can be enabled again.
    """
    end_dead_runs(w, author=principal_id)
    for thread_id, _ in _participations(w, principal_id):
        _say_left(w, by, thread_id, principal_id, "disabled")


def resume(w: Write, by: str, principal_id: str) -> None:
    """Let an enabled principal join its threads anew: a new `joinedSeq` on each (3.1)."""
    for thread_id, role in _participations(w, principal_id):
        seq = _say_joined(w, by, thread_id, principal_id, role)
        w.run(
            "UPDATE grants SET joined_seq = ? WHERE target_type = 'thread' AND target_id = ?"
            " AND principal_id = ?",
            (seq, thread_id, principal_id),
        )
        grant = find_grant(w, wire.Target(type="thread", thread_id=thread_id), principal_id)
        assert grant is not None
        log_grant(w, "changed", grant)


def find_grant(tx: Tx, target: wire.Target, principal_id: str) -> wire.Grant | None:
    """Return the direct grant of a principal on a target, if there is one."""
    row = tx.one(
        "SELECT role, granted_by, created_at, joined_seq FROM grants"
        " WHERE target_type = ? AND target_id = ? AND principal_id = ?",
        (target.type, target_id(target), principal_id),
    )
    if row is None:
        return None
    role, granted_by, created_at, joined_seq = row
    return wire.Grant(
        target=target,
        principal_id=principal_id,
        role=role,
        granted_by=granted_by,
        created_at=created_at,
        joined_seq=joined_seq,
    )


def log_grant(w: Write, action: GrantAction, grant: wire.Grant) -> None:
    """Add a row to the principal's grant log, under its next number (9.1); tell of it."""
    row = w.one(
        "UPDATE principals SET grant_seq = grant_seq + 1 WHERE principal_id = ?"
        " RETURNING grant_seq",
        (grant.principal_id,),
    )
    assert row is not None, grant
    change = wire.ServerGrant(grant_seq=int(row[0]), action=action, grant=grant)
    w.run(
        "INSERT INTO grant_log (principal_id, grant_seq, action, target_type, target_id, role,"
        " granted_by, created_at, joined_seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            grant.principal_id,
            change.grant_seq,
            action,
            grant.target.type,
            target_id(grant.target),
            grant.role,
            grant.granted_by,
            grant.created_at,
            grant.joined_seq,
        ),
    )
    assert grant.principal_id is not None
    w.tell(GrantChanged(grant.principal_id, change))


def _participations(tx: Tx, principal_id: str) -> list[tuple[str, Role]]:
    rows = tx.all(
        "SELECT target_id, role FROM grants WHERE principal_id = ? AND target_type = 'thread'"
        " ORDER BY target_id",
        (principal_id,),
    )
    return [(row[0], row[1]) for row in rows]


def _is_disabled(tx: Tx, principal_id: str) -> bool:
    row = tx.one("SELECT disabled_at FROM principals WHERE principal_id = ?", (principal_id,))
    return row is not None and row[0] is not None


def _say_joined(w: Write, by: str, thread_id: str, principal_id: str, role: Role) -> int:
    told = {"principalId": principal_id, "role": role, "by": by}
    return server_event(w, thread_id, by, "participant_joined", told)


def _say_left(w: Write, by: str, thread_id: str, principal_id: str, cause: LeftCause) -> None:
    told = {"principalId": principal_id, "by": by, "cause": cause}
    server_event(w, thread_id, by, "participant_left", told)
