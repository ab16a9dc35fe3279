"""Who may give a grant and who may take it away (3.2, 3.4, 3.5).

A bot gives no more than `member`, lowers nobody by it, and takes back only what it gave itself.
"""

from contextlib import AbstractContextManager, nullcontext

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import MATRIX, Standing, find_standing, standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.grant_keys import find_answer, keep_answer
from scuba.server.store.participation import (
    add_grant,
    change_role,
    find_grant,
    join,
    leave,
    remove_grant,
)
from scuba.server.store.refusals import principal_not_found
from scuba.server.store.succession import keeping_owners
from scuba.server.store.targets import check_target, require_governing, target_id
from scuba.server.store.visibility import PrincipalRow, find_principal, owns, view

Given = tuple[bool, wire.Grant]
"""Whether the grant is new, and the grant."""

# --- giving ------------------------------------------------------------------------------------


def put(w: Write, caller: Caller, body: wire.NewGrant) -> Given:
    """Grant a role, or change it."""
    target = check_target(body.target)
    if target.type == "thread":
        at = standing(w, caller, target_id(target))
    elif body.role != "owner":
        raise Problem(400, "invalid_json", f"on a {target.type} only the role owner has a meaning")
    else:
        at = None
        require_governing(w, caller, target)
    asked = ("grant", target.type, target_id(target), body.principal_id, body.role)
    if (answered := find_answer(w, caller, body.key, asked)) is not None:
        return False, answered
    if at is not None:
        new, grant = _put_on_thread(w, caller, at, body.principal_id, body.role)
    else:
        new, grant = _put_elsewhere(w, caller, target, body.principal_id)
    keep_answer(w, caller, body.key, asked, grant)
    return new, grant


def invite(w: Write, caller: Caller, thread_id: str, body: wire.NewInvite) -> Given:
    """Add somebody as member; whoever takes part already keeps the role."""
    at = standing(w, caller, thread_id)
    asked = ("invite", thread_id, body.principal_id)
    if (answered := find_answer(w, caller, body.key, asked)) is not None:
        return False, answered
    at.require("invite")
    old = find_grant(w, wire.Target(type="thread", thread_id=thread_id), body.principal_id)
    grant = old or _add(w, caller, at, body.principal_id, "member", may_lower=False)
    keep_answer(w, caller, body.key, asked, grant)
    return old is None, grant


def _put_on_thread(w: Write, caller: Caller, at: Standing, principal_id: str, role: Role) -> Given:
    at.require("manage")
    if _is_bot(caller) and role != "member":
        raise Problem(403, "forbidden", "a bot grants no more than member")
    old = find_grant(w, wire.Target(type="thread", thread_id=at.thread.thread_id), principal_id)
    if old is None:
        return True, _add(w, caller, at, principal_id, role, may_lower=not _is_bot(caller))
    if old.role == role:
        return False, old
    if _is_bot(caller):
        raise Problem(403, "forbidden", "a bot changes no role that somebody has")
    with _keeping_owners(w, at.thread.thread_id, principal_id, old.role, role):
        return False, change_role(w, caller.id, old, role)


def _put_elsewhere(w: Write, caller: Caller, target: wire.Target, principal_id: str) -> Given:
    if _is_bot(caller):
        raise Problem(403, "forbidden", "a bot makes nobody an owner")
    if principal_id == target.principal_id:
        raise Problem(403, "forbidden", "nobody owns itself")
    view(w, caller, principal_id)
    old = find_grant(w, target, principal_id)
    if old is not None:
        return False, old
    return True, add_grant(w, caller.id, target, principal_id, "owner")


def _add(
    w: Write, caller: Caller, at: Standing, principal_id: str, role: Role, *, may_lower: bool
) -> wire.Grant:
    """Make somebody a participant. A direct role smaller than the inherited one lowers it (3.3)."""
    _check_addable(w, caller, at, principal_id)
    thread_id = at.thread.thread_id
    there = find_standing(w, principal_id, thread_id)
    inherited = None if there is None else there.held
    if inherited is not None and not may_lower and not MATRIX[inherited] <= MATRIX[role]:
        raise Problem(403, "forbidden", f"as {role} this principal could do less here than now")
    with _keeping_owners(w, thread_id, principal_id, inherited, role):
        return join(w, caller.id, thread_id, principal_id, role)


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
    if caller.id != principal_id:
        _require_taker(w, caller, target, old)
    if old is None:
        return  # who left before is told alike of every thread, so nothing can be learnt from it
    if target.type != "thread":
        remove_grant(w, caller.id, target, principal_id)
        return
    thread_id = target_id(target)
    with _keeping_owners(w, thread_id, principal_id, old.role, None):
        leave(w, caller.id, thread_id, principal_id)


def _require_taker(w: Write, caller: Caller, target: wire.Target, old: wire.Grant | None) -> None:
    if target.type == "thread":
        standing(w, caller, target_id(target)).require("manage")
    else:
        require_governing(w, caller, target)
    if old is None or not _is_bot(caller):
        return
    if target.type != "thread" or old.role != "member" or old.granted_by != caller.id:
        raise Problem(403, "forbidden", "a bot takes back only the member grants that it gave")


# --- both --------------------------------------------------------------------------------------


def _is_bot(caller: Caller) -> bool:
    return caller.principal.kind == "bot"


def _keeping_owners(
    w: Write, thread_id: str, principal_id: str, had: Role | None, gets: Role | None
) -> AbstractContextManager[None]:
    if had == "owner" and gets != "owner":
        return keeping_owners(w, thread_id, leaving=principal_id)
    return nullcontext()
