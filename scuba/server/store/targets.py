"""What a grant is on: a thread, a principal, or the system (3.1)."""

from typing import Literal

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx
from scuba.server.store.visibility import is_system_owner, view

TargetType = Literal["system", "thread", "principal"]


def target_id(target: wire.Target) -> str:
    """Return the id within the target's type; empty for the system."""
    return target.thread_id or target.principal_id or ""


def to_target(target_type: TargetType, id_: str) -> wire.Target:
    """Return the target that a type and an id of ours name."""
    return wire.Target(
        type=target_type,
        thread_id=id_ if target_type == "thread" else None,
        principal_id=id_ if target_type == "principal" else None,
    )


def check_target(target: wire.Target) -> wire.Target:
    """Return a target that names one thing. Raises Problem 400."""
    ids = {"thread": target.thread_id, "principal": target.principal_id, "system": ""}
    named = ids.pop(target.type)
    if named is None or any(ids.values()):
        raise Problem(400, "invalid_json", f"a target of type {target.type} needs its own id only")
    return target


def require_governing(tx: Tx, caller: Caller, target: wire.Target) -> None:
    """Refuse whoever is not an owner of this principal, or of the system."""
    if target.type == "system":
        if not is_system_owner(tx, caller):
            raise Problem(403, "forbidden", "only a system owner may do this")
    elif not view(tx, caller, target_id(target)).governed:
        raise Problem(403, "forbidden", "only an owner of the principal may do this")
