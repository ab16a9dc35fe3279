"""Bearer tokens: minted once, kept as a hash, looked up, ended (2.2, 2.3, 2.5)."""

import hmac
from math import inf

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.audit import audit
from scuba.server.store.changes import Caller, TokenEnded
from scuba.server.store.engine import Row, Tx, Write
from scuba.server.store.ids import TOKEN, chance, moment, moment_ms, new_token, token_hash
from scuba.server.store.refusals import principal_disabled
from scuba.server.store.text import check_text, read_moment
from scuba.server.store.visibility import require_live, view
from scuba.wire.base import LABEL_CHARACTERS, LONGEST_GRACE_S

LIVE_TOKENS = 10
TOUCH_S = 60
"""How exact `lastUsedAt` is: using a token does not write each time."""

_COLUMNS = "token_id, label, tail, created_at, last_used_at, expires_at, revoked_at"
_LIVE = "principal_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)"


# --- using -------------------------------------------------------------------------------------


class Identity(msgspec.Struct, frozen=True):
    """Whom a token stands for."""

    caller: Caller
    last_used_at: str | None


def identify(tx: Tx, token: str, now: str) -> Identity | None:
    """Return whom a live token stands for, else None.

    Raises Problem 403 for a disabled principal.
    """
    if TOKEN.fullmatch(token) is None:
        return None
    digest = token_hash(token)
    row = tx.one(
        "SELECT t.hash, t.token_id, t.last_used_at, t.expires_at, t.revoked_at, p.principal_id,"
        " p.kind, p.display_name, p.disabled_at FROM tokens t"
        " JOIN principals p ON p.principal_id = t.principal_id WHERE t.hash = ?",
        (digest,),
    )
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    _, token_id, last_used_at, expires_at, revoked_at, principal_id, kind, name, disabled_at = row
    if revoked_at is not None or (expires_at is not None and expires_at <= now):
        return None
    if disabled_at is not None:
        raise principal_disabled()
    principal = wire.Principal(principal_id=principal_id, kind=kind, display_name=name)
    return Identity(Caller(principal, token_id), last_used_at)


def touch(w: Write, token_id: str) -> None:
    """Note that a token is in use."""
    w.run("UPDATE tokens SET last_used_at = ? WHERE token_id = ?", (w.now, token_id))


def own_token(tx: Tx, caller: Caller) -> wire.OwnToken | None:
    """Return what the caller came with, as whoami shows it; of a JWT only its end."""
    row = tx.one(
        "SELECT token_id, created_at, expires_at FROM tokens WHERE token_id = ?",
        (caller.token_id,),
    )
    if row is not None:
        return wire.OwnToken(token_id=row[0], created_at=row[1], expires_at=row[2])
    return None if caller.expires_at is None else wire.OwnToken(expires_at=caller.expires_at)


def left_s(tx: Tx, caller: Caller, now_ms: int) -> float:
    """Return how long the caller's credential is still good, in seconds; `inf` for ever.

    Raises Problem 401 when it has ended, 403 when the principal is disabled.
    """
    require_live(tx, caller, moment(now_ms))
    row = tx.one("SELECT expires_at FROM tokens WHERE token_id = ?", (caller.token_id,))
    ends_at = caller.expires_at if row is None else row[0]
    return inf if ends_at is None else (moment_ms(ends_at) - now_ms) / 1_000


# --- making ------------------------------------------------------------------------------------


def mint(w: Write, caller: Caller, principal_id: str, body: wire.NewToken) -> wire.Token:
    """Make a token, and end the others if asked, at once or after a time of grace."""
    kind = _require_keeper(w, caller, principal_id)
    check_text("label", body.label, LABEL_CHARACTERS)
    if not 0 <= body.grace_seconds <= LONGEST_GRACE_S:
        raise Problem(400, "invalid_json", f"graceSeconds must be 0 to {LONGEST_GRACE_S}")
    expires_at = _read_expiry(body.expires_at, w.now)
    if body.revoke_others:
        _end_others(w, caller, principal_id, body.grace_seconds)
    live = w.one(f"SELECT COUNT(*) FROM tokens WHERE {_LIVE}", (principal_id, w.now))
    if live is not None and live[0] >= LIVE_TOKENS:
        raise Problem(409, "limit_reached", f"a principal has at most {LIVE_TOKENS} live tokens")
    return add_token(w, caller.id, principal_id, kind, label=body.label, expires_at=expires_at)


def add_token(
    w: Write,
    by: str,
    principal_id: str,
    kind: wire.PrincipalKind,
    *,
    label: str | None = None,
    expires_at: str | None = None,
    text: str | None = None,
) -> wire.Token:
    """Store a new token. Returns it with its plaintext, which exists nowhere else.

    Only a seed brings a `text` of its own.
    """
    text = text or new_token(kind)
    token = wire.Token(
        token_id=f"tok_{chance(20)}",
        token=text,
        label=label,
        tail=text[-6:],
        created_at=w.now,
        expires_at=expires_at,
    )
    w.run(
        "INSERT INTO tokens (token_id, principal_id, hash, tail, label, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token.token_id, principal_id, token_hash(text), token.tail, label, w.now, expires_at),
    )
    audit(w, by, "mint", principal_id, token.token_id)
    return token


def _read_expiry(text: str | None, now: str) -> str | None:
    expires_at = read_moment("expiresAt", text)
    if expires_at is not None and expires_at <= now:
        raise Problem(400, "invalid_json", "expiresAt is in the past")
    return expires_at


# --- ending ------------------------------------------------------------------------------------


def revoke(w: Write, caller: Caller, principal_id: str, token_id: str | None) -> None:
    """End one token, or all; what has ended stays ended."""
    _require_keeper(w, caller, principal_id)
    if token_id is None:
        for (live,) in w.all(f"SELECT token_id FROM tokens WHERE {_LIVE}", (principal_id, w.now)):
            _revoke(w, caller, principal_id, live)
        return
    row = w.one(
        "SELECT revoked_at FROM tokens WHERE principal_id = ? AND token_id = ?",
        (principal_id, token_id),
    )
    if row is None:
        raise Problem(404, "not_found", "no such token")
    if row[0] is None:
        _revoke(w, caller, principal_id, token_id)


def _end_others(w: Write, caller: Caller, principal_id: str, grace_s: int) -> None:
    until = moment(w.now_ms + grace_s * 1_000)
    rows = w.all(f"SELECT token_id, expires_at FROM tokens WHERE {_LIVE}", (principal_id, w.now))
    for token_id, expires_at in rows:
        if grace_s == 0:
            _revoke(w, caller, principal_id, token_id)
        elif expires_at is None or expires_at > until:
            w.run("UPDATE tokens SET expires_at = ? WHERE token_id = ?", (until, token_id))
            audit(w, caller.id, "revoke", principal_id, f"{token_id} from {until}")
            w.tell(TokenEnded(token_id))


def _revoke(w: Write, caller: Caller, principal_id: str, token_id: str) -> None:
    w.run("UPDATE tokens SET revoked_at = ? WHERE token_id = ?", (w.now, token_id))
    audit(w, caller.id, "revoke", principal_id, token_id)
    w.tell(TokenEnded(token_id))


# --- seeing ------------------------------------------------------------------------------------


def listing(tx: Tx, caller: Caller, principal_id: str) -> list[wire.Token]:
    """Return a principal's tokens, ended ones too, newest first, without their text."""
    _require_keeper(tx, caller, principal_id)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM tokens WHERE principal_id = ? ORDER BY created_at DESC, token_id",
        (principal_id,),
    )
    return [_token(row) for row in rows]


def _token(row: Row) -> wire.Token:
    token_id, label, tail, created_at, last_used_at, expires_at, revoked_at = row
    return wire.Token(
        token_id=token_id,
        label=label,
        tail=tail,
        created_at=created_at,
        last_used_at=last_used_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )


def _require_keeper(tx: Tx, caller: Caller, principal_id: str) -> wire.PrincipalKind:
    """Refuse whoever may not deal with these tokens; a bot never with its own (2.5)."""
    seen = view(tx, caller, principal_id)
    kind = seen.row.kind
    if seen.is_self and kind == "bot":
        raise Problem(403, "forbidden", "a bot neither mints nor revokes its own tokens")
    if not (seen.governed or (seen.is_self and kind == "user")):
        raise Problem(403, "forbidden", "only an owner of the principal may do this")
    if kind == "system":
        raise Problem(403, "forbidden", "a system principal has no tokens")
    return kind
