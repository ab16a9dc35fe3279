"""Principals: made and changed (2.1, 2.4, 2.6)."""

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.audit import audit
from scuba.server.store.changes import SYSTEM, Caller, PrincipalDisabled
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import KEY, PRINCIPAL_ID
from scuba.server.store.participation import add_grant, resume, suspend
from scuba.server.store.seeing import seen_by, shown
from scuba.server.store.text import check_form, check_text, read_moment
from scuba.server.store.tokens import add_token
from scuba.server.store.visibility import (
    PrincipalRow,
    View,
    is_system_owner,
    view,
)
from scuba.wire.base import EMAIL_CHARACTERS, NAME_CHARACTERS, URL_CHARACTERS

_SHOWN_FIELDS = ("display_name", "avatar_url", "discoverable", "open_to_invites")
_MARKS = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"

# --- making ------------------------------------------------------------------------------------


def create(w: Write, caller: Caller, body: wire.NewPrincipal) -> tuple[bool, wire.PrincipalCreated]:
    """Make a principal with its first token. Returns whether it is new; a repeat has no token."""
    _check_new(body)
    _check_maker(w, caller, body.kind)
    made = _made_before(w, caller, body)
    if made is None and not try_add(w, caller.id, body):
        made = _made_before(w, caller, body)  # by another server, a moment ago
        if made is None:
            raise _taken(body)
    if made is not None:
        return False, _repeated(w, caller, body, made)
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
    if not try_add(w, by, body):
        raise _taken(body)


def try_add(w: Write, by: str, body: wire.NewPrincipal) -> bool:
    """Store a principal as it is told. Returns False, having done nothing, for a taken id."""
    made = _insert(w, by, body)
    if made:
        audit(w, by, "create", body.principal_id, body.kind)
    return made


def _taken(body: wire.NewPrincipal) -> Problem:
    return Problem(409, "principal_exists", f"the id {body.principal_id} is taken")


def _made_before(tx: Tx, caller: Caller, body: wire.NewPrincipal) -> str | None:
    """Return the principal that this key of the caller made."""
    if body.key is None:
        return None
    row = tx.one(
        "SELECT principal_id FROM principals WHERE created_by = ? AND key = ?",
        (caller.id, body.key),
    )
    return None if row is None else str(row[0])


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


def _insert(w: Write, by: str, body: wire.NewPrincipal) -> bool:
    is_user = body.kind == "user"
    found = is_user if body.discoverable is None else body.discoverable
    invited = is_user if body.open_to_invites is None else body.open_to_invites
    made = w.run(
        "INSERT INTO principals (principal_id, kind, display_name, avatar_url, email,"
        " discoverable, open_to_invites, folded, created_by, key, created_at)"
        f" VALUES ({_MARKS}) ON CONFLICT DO NOTHING",
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
    return made == 1


def _folded(principal_id: str, display_name: str | None) -> str:
    """Return the text that a search looks in (2.6)."""
    return f"{principal_id}\n{display_name or ''}".casefold()


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
    changed = [name for name in _SHOWN_FIELDS if getattr(row, name) != getattr(seen.row, name)]
    if changed:
        audit(w, caller.id, "change", principal_id, ", ".join(changed))
    return shown(w, [msgspec.structs.replace(seen, row=row)])[0]


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
