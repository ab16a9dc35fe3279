"""Principals: made, seen, found, changed (2.1, 2.4, 2.6)."""

from collections.abc import Sequence

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import (
    PRINCIPAL_COLUMNS,
    PrincipalRow,
    View,
    find_principal,
    is_system_owner,
    view,
)
from scuba.server.store.changes import SYSTEM, Caller, PrincipalDisabled
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import KEY, PRINCIPAL_ID
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.participation import add_grant, audit, resume, suspend, to_target
from scuba.server.store.text import check_form, check_text, read_moment, storable
from scuba.server.store.tokens import add_token, own_token

NAME_CHARACTERS = 100
QUERY_CHARACTERS = 128
"""As long as an id may be."""
URL_CHARACTERS = 2_000
EMAIL_CHARACTERS = 320
WHOAMI_GRANTS = 200
_MARKS = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"

# --- making ------------------------------------------------------------------------------------


def create(w: Write, caller: Caller, body: wire.NewPrincipal) -> tuple[bool, wire.PrincipalCreated]:
    """Make a principal with its first token. Returns whether it is new; a repeat has no token."""
    _check_new(body)
    _check_maker(w, caller, body.kind)
    if body.key is not None:
        made = w.one(
            "SELECT principal_id FROM principals WHERE created_by = ? AND key = ?",
            (caller.id, body.key),
        )
        if made is not None:
            return False, _repeated(w, caller, body, made[0])
    add_principal(w, caller.id, body)
    if body.kind == "bot" and caller.id != SYSTEM.id:
        target = wire.Target(type="principal", principal_id=body.principal_id)
        add_grant(w, caller.id, target, caller.id, "owner")
    token = None
    if body.kind != "system":
        token = add_token(w, caller.id, body.principal_id, body.kind)
    return True, wire.PrincipalCreated(principal=seen_by(w, caller, body.principal_id), token=token)


def add_principal(w: Write, by: str, body: wire.NewPrincipal) -> None:
    """Make a principal that has no token yet. Raises Problem 409 when the id is taken."""
    _check_new(body)
    if find_principal(w, body.principal_id) is not None:
        raise Problem(409, "principal_exists", f"the id {body.principal_id} is taken")
    _insert(w, by, body)
    audit(w, by, "create", body.principal_id, body.kind)


def _check_new(body: wire.NewPrincipal) -> None:
    check_form("principalId", body.principal_id, PRINCIPAL_ID)
    if body.key is not None:
        check_form("key", body.key, KEY)
    check_text("displayName", body.display_name, NAME_CHARACTERS)
    check_text("avatarUrl", body.avatar_url, URL_CHARACTERS)
    check_text("email", body.email, EMAIL_CHARACTERS)


def _check_maker(tx: Tx, caller: Caller, kind: wire.PrincipalKind) -> None:
    if caller.principal.kind == "bot":
        raise Problem(403, "forbidden", "a bot creates nobody")
    if kind != "bot" and not is_system_owner(tx, caller):
        raise Problem(403, "forbidden", f"only a system owner creates a {kind}")


def _repeated(tx: Tx, caller: Caller, body: wire.NewPrincipal, made: str) -> wire.PrincipalCreated:
    if made != body.principal_id:
        raise Problem(409, "key_conflict", f"the key {body.key} was used for another principal")
    return wire.PrincipalCreated(principal=seen_by(tx, caller, made), token_withheld=True)


def _insert(w: Write, by: str, body: wire.NewPrincipal) -> None:
    is_user = body.kind == "user"
    found = is_user if body.discoverable is None else body.discoverable
    invited = is_user if body.open_to_invites is None else body.open_to_invites
    w.run(
        "INSERT INTO principals (principal_id, kind, display_name, avatar_url, email,"
        " discoverable, open_to_invites, folded, created_by, key, created_at)"
        f" VALUES ({_MARKS})",
        (
            body.principal_id,
            body.kind,
            body.display_name,
            body.avatar_url,
            body.email,
            int(found),
            int(invited),
            _folded(body.principal_id, body.display_name),
            by,
            body.key,
            w.now,
        ),
    )


def _folded(principal_id: str, display_name: str | None) -> str:
    """Return the text that a search looks in (2.6)."""
    return f"{principal_id}\n{display_name or ''}".casefold()


# --- seeing ------------------------------------------------------------------------------------


def seen_by(tx: Tx, caller: Caller, principal_id: str) -> wire.Principal:
    """Return a principal as the caller may see it. Raises Problem 404 when it may not."""
    seen = view(tx, caller, principal_id)
    return _shown(tx, [seen])[0]


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
    return _shown(tx, views), on


def _escaped(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, "\\" + special)
    return text


def _shown(tx: Tx, views: Sequence[View]) -> list[wire.Principal]:
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
    marks = ", ".join("?" * len(principal_ids))
    owners: dict[str, list[str]] = {}
    for owned, owner in tx.all(
        "SELECT target_id, principal_id FROM grants WHERE target_type = 'principal'"
        f" AND role = 'owner' AND target_id IN ({marks}) ORDER BY target_id, created_at",
        principal_ids,
    ):
        owners.setdefault(owned, []).append(owner)
    return owners


# --- changing ----------------------------------------------------------------------------------


def change(
    w: Write, caller: Caller, principal_id: str, asked: wire.PrincipalChange
) -> wire.Principal:
    """Change what the caller may change; disabling ends runs and participations (5.6)."""
    seen = view(w, caller, principal_id)
    _check_may(seen, asked)
    row = _changed(seen.row, asked)
    w.run(
        "UPDATE principals SET display_name = ?, avatar_url = ?, discoverable = ?,"
        " open_to_invites = ?, folded = ?, disabled_at = ? WHERE principal_id = ?",
        (
            row.display_name,
            row.avatar_url,
            row.discoverable,
            row.open_to_invites,
            _folded(principal_id, row.display_name),
            row.disabled_at,
            principal_id,
        ),
    )
    if row.disabled_at is not None and seen.row.disabled_at is None:
        audit(w, caller.id, "disable", principal_id)
        w.tell(PrincipalDisabled(principal_id))
        suspend(w, caller.id, principal_id)
    if row.disabled_at is None and seen.row.disabled_at is not None:
        audit(w, caller.id, "enable", principal_id)
        resume(w, caller.id, principal_id)
    return _shown(w, [msgspec.structs.replace(seen, row=row)])[0]


def _check_may(seen: View, asked: wire.PrincipalChange) -> None:
    if seen.row.principal_id == SYSTEM.id:
        raise Problem(403, "forbidden", "the server itself cannot be changed")
    if seen.governed:
        return
    if not seen.is_self:
        raise Problem(403, "forbidden", "only the principal and its owners change it")
    given = {name for name in asked.__struct_fields__ if getattr(asked, name) is not msgspec.UNSET}
    own = {"display_name", "avatar_url"}
    if seen.row.kind != "bot":
        own |= {"discoverable", "open_to_invites"}
    if not given <= own:
        raise Problem(403, "forbidden", f"only an owner changes {', '.join(sorted(given - own))}")


def _changed(row: PrincipalRow, asked: wire.PrincipalChange) -> PrincipalRow:
    changes: dict[str, object] = {
        name: value
        for name in asked.__struct_fields__
        if (value := getattr(asked, name)) is not msgspec.UNSET
    }
    for name in ("discoverable", "open_to_invites"):
        if name in changes:
            changes[name] = int(bool(changes[name]))
    if asked.disabled_at is not msgspec.UNSET:
        changes["disabled_at"] = read_moment("disabledAt", asked.disabled_at)
    new = msgspec.structs.replace(row, **changes)
    check_text("displayName", new.display_name, NAME_CHARACTERS)
    check_text("avatarUrl", new.avatar_url, URL_CHARACTERS)
    return new
