"""Grants: who may give, take and see them (3.4, 3.5), and their stream (9)."""

from collections.abc import Sequence

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import (
    PrincipalRow,
    Standing,
    find_principal,
    is_system_owner,
    owns,
    principal_not_found,
    standing,
    view,
)
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Row, Tx, Write
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.participation import (
    add_grant,
    change_role,
    find_grant,
    join,
    leave,
    remove_grant,
    target_id,
    to_target,
)

# --- giving ------------------------------------------------------------------------------------


def put(w: Write, caller: Caller, body: wire.NewGrant) -> tuple[bool, wire.Grant]:
    """Grant a role, or change it. Returns whether the grant is new."""
    target = check_target(body.target)
    if target.type == "thread":
        at = standing(w, caller, target_id(target))
        at.require("manage")
        return _put_on_thread(w, caller, at, body.principal_id, body.role)
    if body.role != "owner":
        raise Problem(400, "invalid_json", f"on a {target.type} only the role owner has a meaning")
    _require_governing(w, caller, target)
    if caller.principal.kind == "bot":
        raise Problem(403, "forbidden", "a bot makes nobody an owner")
    view(w, caller, body.principal_id)
    old = find_grant(w, target, body.principal_id)
    if old is not None:
        return False, old
    return True, add_grant(w, caller.id, target, body.principal_id, "owner")


def invite(
    w: Write, caller: Caller, thread_id: str, body: wire.NewInvite
) -> tuple[bool, wire.Grant]:
    """Add somebody as member; whoever takes part already keeps the role."""
    at = standing(w, caller, thread_id)
    at.require("invite")
    old = find_grant(w, wire.Target(type="thread", thread_id=thread_id), body.principal_id)
    if old is not None:
        return False, old
    _check_addable(w, caller, at, body.principal_id)
    return True, join(w, caller.id, thread_id, body.principal_id, "member")


def _put_on_thread(
    w: Write, caller: Caller, at: Standing, principal_id: str, role: Role
) -> tuple[bool, wire.Grant]:
    target = wire.Target(type="thread", thread_id=at.thread.thread_id)
    if caller.principal.kind == "bot" and role != "member":
        raise Problem(403, "forbidden", "a bot grants no more than member")
    old = find_grant(w, target, principal_id)
    if old is None:
        _check_addable(w, caller, at, principal_id)
        return True, join(w, caller.id, at.thread.thread_id, principal_id, role)
    if old.role == role:
        return False, old
    if old.role == "owner":
        _check_not_last(w, at, principal_id)
    return False, change_role(w, caller.id, old, role)


def _check_addable(w: Write, caller: Caller, at: Standing, principal_id: str) -> None:
    """Hold invite privacy: nobody learns of a principal by trying to add it (3.5)."""
    row = find_principal(w, principal_id)
    if row is None:
        raise principal_not_found()
    if at.system_owner or owns(w, caller, principal_id):
        return
    if row.disabled_at is not None:
        raise principal_not_found()
    if row.open_to_invites or caller.id == principal_id or _in_parent(w, at, row):
        return
    view(w, caller, principal_id)
    raise Problem(403, "invites_closed", "this principal is not open to invites")


def _in_parent(tx: Tx, at: Standing, row: PrincipalRow) -> bool:
    parent = wire.Target(type="thread", thread_id=at.thread.parent_thread_id)
    return parent.thread_id is not None and find_grant(tx, parent, row.principal_id) is not None


# --- taking ------------------------------------------------------------------------------------


def delete(w: Write, caller: Caller, target: wire.Target, principal_id: str) -> None:
    """Take a grant away, or leave. Says nothing when it is not there."""
    target = check_target(target)
    old = find_grant(w, target, principal_id)
    if caller.id == principal_id:
        if old is None:
            return  # left before; said alike of every thread, so nothing can be learnt from it
    elif target.type != "thread":
        _require_governing(w, caller, target)
    else:
        standing(w, caller, target_id(target)).require("manage")
    if old is None:
        return
    if target.type != "thread":
        remove_grant(w, caller.id, target, principal_id)
        return
    at = standing(w, caller, target_id(target))
    if old.role == "owner":
        _check_not_last(w, at, principal_id)
    leave(w, caller.id, at.thread.thread_id, principal_id)


def _check_not_last(w: Write, at: Standing, principal_id: str) -> None:
    """Refuse to leave a thread without an enabled owner; owners by inheritance count (3.4)."""
    others = w.one(
        "SELECT 1 FROM grants g JOIN principals p ON p.principal_id = g.principal_id"
        " WHERE g.target_type = 'thread' AND g.role = 'owner' AND p.disabled_at IS NULL"
        " AND (g.target_id = ? AND g.principal_id <> ? OR g.target_id = ? AND g.target_id <> ?)",
        (at.thread.thread_id, principal_id, at.thread.holder_id, at.thread.thread_id),
    )
    if others is None:
        raise Problem(409, "last_owner", "the last owner of a thread cannot go")


# --- seeing ------------------------------------------------------------------------------------

_COLUMNS = "target_type, target_id, principal_id, role, granted_by, created_at, joined_seq"


def on_target(
    tx: Tx, caller: Caller, target: wire.Target, limit: int, after: str | None
) -> tuple[list[wire.Grant], str | None]:
    """Return the grants on a target to somebody who takes part in it."""
    target = check_target(target)
    if target.type == "thread":
        standing(tx, caller, target_id(target))
    elif caller.id != target.principal_id:
        _require_governing(tx, caller, target)
    start = place(after, 1) or ("",)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM grants WHERE target_type = ? AND target_id = ?"
        " AND principal_id > ? ORDER BY principal_id LIMIT ?",
        (target.type, target_id(target), *start, check_limit(limit) + 1),
    )
    page, on = cut(rows, limit, lambda row: (row[2],))
    return [_grant(row) for row in page], on


def of_principal(
    tx: Tx, caller: Caller, principal_id: str, limit: int, after: str | None
) -> tuple[list[wire.Grant], str | None, int]:
    """Return a principal's direct grants as in the stream (9.2), and its grantSeq."""
    seen = view(tx, caller, principal_id)
    if not (seen.is_self or seen.governed):
        raise Problem(403, "forbidden", "only the principal and its owners see its grants")
    start = place(after, 2) or ("", "")
    rows = _with_heads(tx, principal_id, start, check_limit(limit) + 1)
    page, on = cut(rows, limit, lambda row: (row[0], row[1]))
    return _as_streamed(tx, principal_id, page), on, seen.row.grant_seq


def everything(
    tx: Tx, caller: Caller, limit: int, after: str | None
) -> tuple[list[wire.Grant], str | None]:
    """Return all grants there are, to a system owner."""
    if not is_system_owner(tx, caller):
        raise Problem(403, "forbidden", "only a system owner sees all grants")
    start = place(after, 3) or ("", "", "")
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM grants"
        " WHERE (target_type, target_id, principal_id) > (?, ?, ?)"
        " ORDER BY target_type, target_id, principal_id LIMIT ?",
        (*start, check_limit(limit) + 1),
    )
    page, on = cut(rows, limit, lambda row: (row[0], row[1], row[2]))
    return [_grant(row) for row in page], on


# --- the stream --------------------------------------------------------------------------------

HELD = 1_000
"""Changes that can be resumed over; beyond, the snapshot is the cheaper truth."""


def snapshot(tx: Tx, principal_id: str) -> tuple[int, list[wire.Grant]]:
    """Return grantSeq and all direct grants, with heads and own open runs, in three queries."""
    row = tx.one("SELECT grant_seq FROM principals WHERE principal_id = ?", (principal_id,))
    head = 0 if row is None else int(row[0])
    rows = _with_heads(tx, principal_id, ("", ""), -1)
    return head, _as_streamed(tx, principal_id, rows)


def since(tx: Tx, principal_id: str, after: int) -> list[wire.ServerGrant] | None:
    """Return the changes after a grantSeq, or None when a snapshot is needed (9.1)."""
    row = tx.one("SELECT grant_seq FROM principals WHERE principal_id = ?", (principal_id,))
    head = 0 if row is None else int(row[0])
    if not head - HELD <= after <= head or after < 0:
        return None
    rows = tx.all(
        "SELECT grant_seq, action, target_type, target_id, role, granted_by, created_at,"
        " joined_seq FROM grant_log WHERE principal_id = ? AND grant_seq > ? ORDER BY grant_seq",
        (principal_id, after),
    )
    return [
        wire.ServerGrant(
            grant_seq=row[0], action=row[1], grant=_grant((*row[2:4], principal_id, *row[4:]))
        )
        for row in rows
    ]


def _with_heads(tx: Tx, principal_id: str, start: tuple[str, ...], limit: int) -> list[Row]:
    columns = ", ".join(f"g.{name}" for name in _COLUMNS.split(", "))
    sql = (
        f"SELECT {columns}, t.last_seq FROM grants g LEFT JOIN threads t"
        " ON g.target_type = 'thread' AND t.thread_id = g.target_id"
        " WHERE g.principal_id = ? AND (g.target_type, g.target_id) > (?, ?)"
        " ORDER BY g.target_type, g.target_id"
    )
    if limit < 0:
        return tx.all(sql, (principal_id, *start))
    return tx.all(sql + " LIMIT ?", (principal_id, *start, limit))


def _as_streamed(tx: Tx, principal_id: str, rows: Sequence[Row]) -> list[wire.Grant]:
    open_runs: dict[str, list[str]] = {}
    for thread_id, run_id in tx.all(
        "SELECT thread_id, run_id FROM runs WHERE principal_id = ? AND status = 'open'"
        " ORDER BY thread_id, first_seq",
        (principal_id,),
    ):
        open_runs.setdefault(thread_id, []).append(run_id)
    return [
        msgspec.structs.replace(
            _grant(row[:7]), last_seq=row[7], open_runs=open_runs.get(row[1], [])
        )
        for row in rows
    ]


def _grant(row: Row) -> wire.Grant:
    target_type, id_, principal_id, role, granted_by, created_at, joined_seq = row
    return wire.Grant(
        target=to_target(target_type, id_),
        principal_id=principal_id,
        role=role,
        granted_by=granted_by,
        created_at=created_at,
        joined_seq=joined_seq,
    )


def check_target(target: wire.Target) -> wire.Target:
    """Return a target that names one thing. Raises Problem 400."""
    ids = {"thread": target.thread_id, "principal": target.principal_id, "system": ""}
    named = ids.pop(target.type)
    if named is None or any(ids.values()):
        raise Problem(400, "invalid_json", f"a target of type {target.type} needs its own id only")
    return target


def _require_governing(tx: Tx, caller: Caller, target: wire.Target) -> None:
    """Refuse whoever is not an owner of this principal, or of the system."""
    if target.type == "system":
        if not is_system_owner(tx, caller):
            raise Problem(403, "forbidden", "only a system owner may do this")
    elif not view(tx, caller, target_id(target)).governed:
        raise Problem(403, "forbidden", "only an owner of the principal may do this")
