"""Principals as others see them: one, oneself, or whom one finds (2.3, 2.6)."""

from collections.abc import Sequence

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.targets import to_target
from scuba.server.store.tokens import own_token
from scuba.server.store.visibility import (
    PRINCIPAL_COLUMNS,
    PrincipalRow,
    View,
    is_system_owner,
    view,
)
from scuba.server.strictness import storable

QUERY_CHARACTERS = 128
"""As long as an id may be."""
WHOAMI_GRANTS = 200


def seen_by(tx: Tx, caller: Caller, principal_id: str) -> wire.Principal:
    """Return a principal as the caller may see it. Raises Problem 404 when it may not."""
    seen = view(tx, caller, principal_id)
    return shown(tx, [seen])[0]


def whoami(tx: Tx, caller: Caller) -> wire.WhoAmI:
    """Return the caller, its newest direct grants, and the token it came with (2.3)."""
    rows = tx.all(
        "SELECT target_type, target_id, role FROM grants WHERE principal_id = ?"
        " ORDER BY created_at DESC, target_type, target_id LIMIT ?",
        (caller.id, WHOAMI_GRANTS + 1),
    )
    return wire.WhoAmI(
        principal=seen_by(tx, caller, caller.id),
        grants=[
            wire.Grant(target=to_target(*row[:2]), role=row[2]) for row in rows[:WHOAMI_GRANTS]
        ],
        token=own_token(tx, caller),
        grants_truncated=len(rows) > WHOAMI_GRANTS,
    )


def find(
    tx: Tx, caller: Caller, *, q: str, kind: str | None, limit: int, after: str | None
) -> tuple[list[wire.Principal], str | None]:
    """Return whom the caller finds by a part of id or name. Co-membership does not widen it."""
    if len(q) > QUERY_CHARACTERS or not storable(q):
        raise Problem(400, "invalid_query", f"q must be a text of at most {QUERY_CHARACTERS}")
    is_root = is_system_owner(tx, caller)
    where = ["p.principal_id > ?", "p.folded LIKE ? ESCAPE '\\'"]
    args = [*(place(after, 1) or ("",)), f"%{_escaped(q.casefold())}%"]
    if kind is not None:
        where.append("p.kind = ?")
        args.append(kind)
    if not is_root:
        where.append("p.disabled_at IS NULL")
        where.append("(p.discoverable = 1 OR p.principal_id = ? OR own.role = 'owner')")
        args.append(caller.id)
    rows = tx.all(
        f"SELECT {PRINCIPAL_COLUMNS}, own.role FROM principals p"
        " LEFT JOIN grants own ON own.target_type = 'principal'"
        " AND own.target_id = p.principal_id AND own.principal_id = ?"
        f" WHERE {' AND '.join(where)} ORDER BY p.principal_id LIMIT ?",
        (caller.id, *args, check_limit(limit) + 1),
    )
    page, on = cut(rows, limit, lambda row: (row[0],))
    views = [
        View(PrincipalRow(*row[:-1]), row[0] == caller.id, row[-1] == "owner", is_root)
        for row in page
    ]
    return shown(tx, views), on


def _escaped(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return text


def shown(tx: Tx, views: Sequence[View]) -> list[wire.Principal]:
    """Return principals as whoever views them may see them."""
    owners = _owners(tx, [seen.row.principal_id for seen in views])
    return [
        wire.Principal(
            principal_id=seen.row.principal_id,
            kind=seen.row.kind,
            display_name=seen.row.display_name,
            avatar_url=seen.row.avatar_url,
            email=seen.row.email if seen.is_self or seen.governed else None,
            discoverable=bool(seen.row.discoverable),
            open_to_invites=bool(seen.row.open_to_invites),
            owner_principal_ids=owners.get(seen.row.principal_id, []),
            created_at=seen.row.created_at,
            disabled_at=seen.row.disabled_at,
        )
        for seen in views
    ]


def _owners(tx: Tx, principal_ids: Sequence[str]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    if not principal_ids:  # PostgreSQL knows no empty list
        return owners
    marks = ", ".join("?" * len(principal_ids))
    for owned, owner in tx.all(
        "SELECT target_id, principal_id FROM grants WHERE target_type = 'principal'"
        f" AND role = 'owner' AND target_id IN ({marks}) ORDER BY target_id, created_at",
        principal_ids,
    ):
        owners.setdefault(owned, []).append(owner)
    return owners
