"""Grants as they are seen: on a target, of a principal, all, and as a stream (3.4, 9)."""

from collections.abc import Sequence

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Row, Tx
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.targets import check_target, require_governing, target_id, to_target
from scuba.server.store.visibility import is_system_owner, view

# --- lists -------------------------------------------------------------------------------------

_COLUMNS = "target_type, target_id, principal_id, role, granted_by, created_at, joined_seq"


def on_target(
    tx: Tx, caller: Caller, target: wire.Target, limit: int, after: str | None
) -> tuple[list[wire.Grant], str | None]:
    """Return the grants on a target to somebody who takes part in it."""
    target = check_target(target)
    if target.type == "thread":
        standing(tx, caller, target_id(target))
    elif caller.id != target.principal_id:
        require_governing(tx, caller, target)
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
