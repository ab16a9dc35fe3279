"""Whom an issuer's subject is here: bound once to a principal, by hand or at first sight (2.2)."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.audit import audit
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import CROCKFORD, PRINCIPAL_ID, chance
from scuba.server.store.participation import add_grant
from scuba.server.store.principals import try_add
from scuba.server.store.refusals import principal_disabled, principal_not_found
from scuba.server.store.text import check_text
from scuba.server.store.visibility import find_principal

ISSUER_CHARACTERS = 2_000
SUBJECT_CHARACTERS = 255
"""As long as OpenID Connect lets it be."""
SLUG_CHARACTERS = 40


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """What an issuer has signed about somebody, checked already."""

    issuer: str
    subject: str
    expires_at: str
    names: tuple[str, ...] = ()
    """What an id may be made of, the best first."""
    display_name: str | None = None
    email: str | None = None
    """Only one that the issuer has verified."""


class BoundMeanwhile(Exception):
    """Another server has bound this subject between our look and our write: look again."""


def find(tx: Tx, vouched: Vouched) -> Caller | None:
    """Return whom the subject is bound to, else None. Raises Problem 403 `principal_disabled`."""
    row = tx.one(
        "SELECT p.principal_id, p.kind, p.display_name, p.disabled_at FROM identities i"
        " JOIN principals p ON p.principal_id = i.principal_id"
        " WHERE i.issuer = ? AND i.subject = ?",
        (vouched.issuer, vouched.subject),
    )
    if row is None:
        return None
    if row[3] is not None:
        raise principal_disabled()
    principal = wire.Principal(principal_id=row[0], kind=row[1], display_name=row[2])
    return Caller(principal, expires_at=vouched.expires_at)


def find_or_make(w: Write, vouched: Vouched, *, first_owns: bool) -> Caller:
    """Return whom the subject is bound to: a new user when it is bound to nobody yet.

    With `first_owns` the first user ever made here becomes a system owner, unless there is one.
    Raises BoundMeanwhile, and Problem 403 `principal_disabled`.
    """
    known = find(w, vouched)
    if known is not None:
        return known
    principal_id = _make_user(w, vouched)
    if not _bind(w, principal_id, principal_id, vouched.issuer, vouched.subject):
        raise BoundMeanwhile
    note_user(w, principal_id, first_owns=first_owns)
    made = find(w, vouched)
    assert made is not None, principal_id
    return made


def bind(w: Write, caller: Caller, principal_id: str, issuer: str, subject: str) -> bool:
    """Bind a subject to a principal that is there. Returns False when it was already so.

    For set-up code. Raises Problem 404 for an unknown principal, 409 `principal_exists` when the
    subject is somebody else's.
    """
    check_text("issuer", issuer, ISSUER_CHARACTERS)
    check_text("subject", subject, SUBJECT_CHARACTERS)
    if principal_id == SYSTEM.id or find_principal(w, principal_id) is None:
        raise principal_not_found()  # nobody is the server itself
    if _bind(w, caller.id, principal_id, issuer, subject):
        return True
    row = w.one(
        "SELECT principal_id FROM identities WHERE issuer = ? AND subject = ?", (issuer, subject)
    )
    if row is not None and row[0] != principal_id:
        raise Problem(409, "principal_exists", f"{subject} of {issuer} is bound to {row[0]}")
    return False


def act_as(w: Write, principal_id: str) -> Caller | None:
    """Return a principal as whom the master key acts, noted in the audit; None for an unknown id.

    Raises Problem 403 `principal_disabled`.
    """
    if PRINCIPAL_ID.fullmatch(principal_id) is None or principal_id == SYSTEM.id:
        return None
    known = find_principal(w, principal_id)
    if known is None:
        return None
    if known.disabled_at is not None:
        raise principal_disabled()
    audit(w, principal_id, "master_key", principal_id)
    return Caller(
        wire.Principal(principal_id=principal_id, kind=known.kind, display_name=known.display_name)
    )


def _bind(w: Write, by: str, principal_id: str, issuer: str, subject: str) -> bool:
    made = w.run(
        "INSERT INTO identities (issuer, subject, principal_id, created_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (issuer, subject, principal_id, w.now),
    )
    if made:
        audit(w, by, "bind", principal_id, f"{subject} of {issuer}")
    return made == 1


def _make_user(w: Write, vouched: Vouched) -> str:
    """Make a user under the first id that is free. Returns the id."""
    for principal_id in ids_for(vouched):
        body = wire.NewPrincipal(
            principal_id=principal_id,
            kind="user",
            display_name=vouched.display_name,
            email=vouched.email,
        )
        if try_add(w, SYSTEM.id, body):
            return principal_id
    raise AssertionError("ids_for ended")


def ids_for(vouched: Vouched) -> Iterator[str]:
    """Return the ids that a new user may get, the most readable first. The last are of chance."""
    whole = f"{vouched.issuer}\0{vouched.subject}".encode()
    number = int.from_bytes(hashlib.sha256(whole).digest())
    mark = "".join(CROCKFORD[number >> shift & 31] for shift in range(251, 151, -5))
    slugs = [slug for name in vouched.names if (slug := _slug(name))]
    for slug in slugs[:1]:
        yield f"user-{slug}"
        yield f"user-{slug}-{mark[:6]}"
    yield f"user-{mark}"
    while True:
        yield f"user-{chance(20)}"


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:SLUG_CHARACTERS].strip("-")


def note_user(w: Write, principal_id: str, *, first_owns: bool) -> None:
    """Make a new user a system owner, if it is the first of all, that is wanted, and none is."""
    if _is_first(w, principal_id) and first_owns and not _has_system_owner(w):
        add_grant(w, SYSTEM.id, wire.Target(type="system"), principal_id, "owner")


def _is_first(w: Write, principal_id: str) -> bool:
    """Tell whether no user was made so before: one row decides, also between two servers."""
    made = w.run(
        "INSERT INTO meta (name, value) VALUES ('first_user', ?) ON CONFLICT DO NOTHING",
        (principal_id,),
    )
    return made == 1


def _has_system_owner(tx: Tx) -> bool:
    sql = "SELECT 1 FROM grants WHERE target_type = 'system' AND role = 'owner'"
    return tx.one(sql) is not None
