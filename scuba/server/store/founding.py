"""New threads and subthreads, each made once for its key (4.2)."""

from typing import Any

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import Standing, ThreadRow, standing
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import (
    KEY,
    RUN_ID,
    THREAD_ID,
    TOOL_CALL_ID,
    chance,
    child_id,
    random_child_id,
)
from scuba.server.store.log import server_event
from scuba.server.store.participation import join
from scuba.server.store.text import check_form, check_text
from scuba.server.store.threads import find_thread, seen_by
from scuba.wire.base import TITLE_CHARACTERS

DEPTH = 8
CHILDREN = 1_000


def create(
    w: Write, caller: Caller, body: wire.NewThread, thread_id: str | None
) -> tuple[bool, wire.Thread]:
    """Make a thread; the caller owns it, but for the server itself, which takes part in none."""
    check_text("title", body.title, TITLE_CHARACTERS)
    old = _find_made(w, caller, "", body.key, thread_id)
    if old is not None:
        return False, old
    if thread_id is not None:
        check_form("threadId", thread_id, THREAD_ID)
    row = ThreadRow(
        thread_id=thread_id or f"thr_{chance(10)}",
        parent_thread_id=None,
        holder_id="",
        depth=0,
        title=body.title,
        access="direct",
        members_can_invite=int(body.members_can_invite),
        created_by=caller.id,
        created_at=w.now,
        archived_at=None,
        first_seq=1,
        last_seq=0,
        last_event_at=w.now,
    )
    return True, _make(w, caller, row, body.key, {})


def create_child(
    w: Write,
    caller: Caller,
    parent_id: str,
    body: wire.NewSubthread,
    thread_id: str | None = None,
) -> tuple[bool, wire.Thread]:
    """Make a subthread; the caller is its only direct participant, as owner.

    Only set-up code, as the server itself, may name the id.
    """
    at = standing(w, caller, parent_id)
    check_text("title", body.title, TITLE_CHARACTERS)
    _check_origin(body.origin)
    old = _find_made(w, caller, parent_id, body.key, thread_id)
    if old is not None:
        return False, old
    at.require("branch")
    at.require_open()
    _check_room(w, at)
    row = ThreadRow(
        thread_id=thread_id or _free_child_id(w, caller.id, parent_id, body.key),
        parent_thread_id=parent_id,
        holder_id=at.thread.holder_id if body.access == "inherit" else "",
        depth=at.thread.depth + 1,
        title=body.title,
        access=body.access,
        members_can_invite=1,
        created_by=caller.id,
        created_at=w.now,
        archived_at=None,
        first_seq=1,
        last_seq=0,
        last_event_at=w.now,
    )
    told: dict[str, Any] = {"parentThreadId": parent_id}
    if body.origin is not None:
        told["origin"] = body.origin
    return True, _make(w, caller, row, body.key, told)


def _find_made(
    tx: Tx, caller: Caller, parent_id: str, key: str | None, thread_id: str | None
) -> wire.Thread | None:
    """Return the thread that this call made before (4.2)."""
    if key is not None:
        check_form("key", key, KEY)
        kept = tx.one(
            "SELECT thread_id FROM thread_keys WHERE principal_id = ? AND parent_id = ?"
            " AND key = ?",
            (caller.id, parent_id, key),
        )
        thread_id = thread_id if kept is None else kept[0]
    made = None if thread_id is None else seen_by(tx, caller, thread_id)
    return made if made is None or made.role is not None else _as_it_began(made)


def _as_it_began(made: wire.Thread) -> wire.Thread:
    """Return of a thread what its maker knows who may not read it any more (3.6)."""
    return wire.Thread(
        thread_id=made.thread_id,
        parent_thread_id=made.parent_thread_id,
        created_by=made.created_by,
        created_at=made.created_at,
        first_seq=1,
        last_seq=1,
    )


def _make(
    w: Write, caller: Caller, row: ThreadRow, key: str | None, told: dict[str, Any]
) -> wire.Thread:
    row = msgspec.structs.replace(row, holder_id=row.holder_id or row.thread_id)
    values = msgspec.structs.astuple(row)
    names = ", ".join(ThreadRow.__struct_fields__)
    marks = ", ".join("?" * len(values))
    w.run(f"INSERT INTO threads ({names}) VALUES ({marks})", values)
    if key is not None:
        w.run(
            "INSERT INTO thread_keys (principal_id, parent_id, key, thread_id) VALUES (?, ?, ?, ?)",
            (caller.id, row.parent_thread_id or "", key, row.thread_id),
        )
    server_event(w, row.thread_id, caller.id, "thread_created", told)
    if caller.id != SYSTEM.id:
        join(w, caller.id, row.thread_id, caller.id, "owner")
    made = seen_by(w, caller, row.thread_id)
    assert made is not None, row
    return made


def _free_child_id(tx: Tx, caller_id: str, parent_id: str, key: str | None) -> str:
    salt = 0
    while True:
        made = random_child_id(parent_id)
        if key is not None:
            made = child_id(parent_id, caller_id, key, salt)
        if find_thread(tx, made) is None:
            return made
        salt += 1


def _check_room(tx: Tx, at: Standing) -> None:
    if at.thread.depth >= DEPTH:
        raise Problem(409, "limit_reached", f"subthreads are at most {DEPTH} deep")
    row = tx.one("SELECT COUNT(*) FROM threads WHERE parent_thread_id = ?", (at.thread.thread_id,))
    if row is not None and row[0] >= CHILDREN:
        raise Problem(409, "limit_reached", f"a thread has at most {CHILDREN} subthreads")


def _check_origin(origin: wire.Origin | None) -> None:
    if origin is not None:
        check_form("origin.runId", origin.run_id, RUN_ID)
        check_form("origin.toolCallId", origin.tool_call_id, TOOL_CALL_ID)
