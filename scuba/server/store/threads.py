"""Threads: made once for each key, listed, seen, changed (4)."""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import (
    THREAD_COLUMNS,
    Standing,
    ThreadRow,
    standing,
    thread_not_found,
)
from scuba.server.store.changes import SYSTEM, AccessChanged, Caller
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
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.participation import join, server_event
from scuba.server.store.text import check_form, check_text, read_moment

TITLE_CHARACTERS = 200
DEPTH = 8
CHILDREN = 1_000

# --- making ------------------------------------------------------------------------------------


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
    w: Write, caller: Caller, parent_id: str, body: wire.NewSubthread
) -> tuple[bool, wire.Thread]:
    """Make a subthread; the caller is its only direct participant, as owner."""
    at = standing(w, caller, parent_id)
    check_text("title", body.title, TITLE_CHARACTERS)
    _check_origin(body.origin)
    old = _find_made(w, caller, parent_id, body.key, None)
    if old is not None:
        return False, old
    at.require("branch")
    at.require_open()
    _check_room(w, at)
    row = ThreadRow(
        thread_id=_free_child_id(w, caller.id, parent_id, body.key),
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
    row = None if thread_id is None else find_thread(tx, thread_id)
    return None if row is None else row.seen_as(_role(tx, caller, row.thread_id))


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
    return _reread(w, caller, row.thread_id)


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


# --- seeing ------------------------------------------------------------------------------------


def find_thread(tx: Tx, thread_id: str) -> ThreadRow | None:
    """Return a thread, whoever asks."""
    sql = f"SELECT {THREAD_COLUMNS} FROM threads t WHERE t.thread_id = ?"
    row = tx.one(sql, (thread_id,))
    return None if row is None else ThreadRow(*row)


def listing(
    tx: Tx,
    caller: Caller,
    *,
    parent: str | None,
    archived: bool | None,
    limit: int,
    after: str | None,
) -> tuple[list[wire.Thread], str | None]:
    """Return the threads the caller takes part in, newest activity first, in one query (4.3)."""
    where, args = ["g.principal_id = ?", "g.target_type = 'thread'"], [caller.id]
    if parent is not None:
        where.append("t.parent_thread_id = ?")
        args.append(parent)
    if archived is not None:
        where.append(f"t.archived_at IS {'NOT ' if archived else ''}NULL")
    if (start := place(after, 2)) is not None:
        where.append("(t.last_event_at < ? OR t.last_event_at = ? AND t.thread_id > ?)")
        args += [start[0], *start]
    rows = tx.all(
        f"SELECT {THREAD_COLUMNS}, g.role FROM grants g"
        f" JOIN threads t ON t.thread_id = g.target_id WHERE {' AND '.join(where)}"
        " ORDER BY t.last_event_at DESC, t.thread_id LIMIT ?",
        (*args, check_limit(limit) + 1),
    )
    found = [ThreadRow(*row[:-1]).seen_as(row[-1]) for row in rows]
    page, on = cut(found, limit, lambda thread: (thread.last_event_at or "", thread.thread_id))
    return list(page), on


def whole(tx: Tx, caller: Caller, thread_id: str) -> wire.ThreadView:
    """Return a thread with its participants and the runs without a finish."""
    at = standing(tx, caller, thread_id)
    participants = tx.all(
        "SELECT p.principal_id, g.role, p.kind, p.display_name, g.joined_seq FROM grants g"
        " JOIN principals p ON p.principal_id = g.principal_id WHERE g.target_type = 'thread'"
        " AND g.target_id = ? AND p.disabled_at IS NULL ORDER BY g.joined_seq",
        (thread_id,),
    )
    runs = tx.all(
        "SELECT run_id, principal_id, first_seq FROM runs WHERE thread_id = ?"
        " AND status = 'open' ORDER BY first_seq",
        (thread_id,),
    )
    return wire.ThreadView(
        thread=at.thread.seen_as(at.role),
        participants=[
            wire.Participant(
                principal_id=row[0],
                role=row[1],
                kind=row[2],
                display_name=row[3],
                joined_seq=row[4],
            )
            for row in participants
        ],
        active_runs=[
            wire.ActiveRun(run_id=row[0], principal_id=row[1], started_seq=row[2]) for row in runs
        ],
    )


def _role(tx: Tx, caller: Caller, thread_id: str) -> Role | None:
    try:
        return standing(tx, caller, thread_id).role
    except Problem:
        return None


def _reread(tx: Tx, caller: Caller, thread_id: str) -> wire.Thread:
    at = standing(tx, caller, thread_id)
    return at.thread.seen_as(at.role)


# --- changing ----------------------------------------------------------------------------------


def change(w: Write, caller: Caller, thread_id: str, asked: wire.ThreadChange) -> wire.Thread:
    """Change title, settings or archive; say only what became different."""
    at = standing(w, caller, thread_id)
    at.require("manage")
    old, new = at.thread, _changed(at.thread, asked)
    told = {
        wire_name: shown(getattr(new, name))
        for name, (wire_name, shown) in _TOLD.items()
        if getattr(new, name) != getattr(old, name)
    }
    if not told:
        return old.seen_as(at.role)
    w.run(
        "UPDATE threads SET title = ?, access = ?, members_can_invite = ?, archived_at = ?"
        " WHERE thread_id = ?",
        (new.title, new.access, new.members_can_invite, new.archived_at, thread_id),
    )
    if new.access != old.access:
        _move_holder(w, old, new.access)
    server_event(w, thread_id, caller.id, "thread_updated", told)
    return _reread_or_gone(w, caller, thread_id)


def _same(value: object) -> object:
    return value


_TOLD: dict[str, tuple[str, Callable[[object], object]]] = {
    "title": ("title", _same),
    "archived_at": ("archivedAt", _same),
    "members_can_invite": ("membersCanInvite", bool),
    "access": ("access", _same),
}


def _changed(row: ThreadRow, asked: wire.ThreadChange) -> ThreadRow:
    changes: dict[str, Any] = {}
    if asked.title is not msgspec.UNSET:
        check_text("title", asked.title, TITLE_CHARACTERS)
        changes["title"] = asked.title
    if asked.members_can_invite is not msgspec.UNSET:
        changes["members_can_invite"] = int(asked.members_can_invite)
    if asked.access is not msgspec.UNSET:
        if asked.access == "inherit" and row.parent_thread_id is None:
            raise Problem(400, "invalid_json", "access: a thread without a parent inherits nothing")
        changes["access"] = asked.access
    if asked.archived_at is not msgspec.UNSET:
        changes["archived_at"] = read_moment("archivedAt", asked.archived_at)
    return msgspec.structs.replace(row, **changes)


def _move_holder(w: Write, row: ThreadRow, access: wire.Access) -> None:
    """Point a thread, and what inherits through it, at the participants that now count (3.3)."""
    holder_id = row.thread_id
    if access == "inherit" and row.parent_thread_id is not None:
        parent = find_thread(w, row.parent_thread_id)
        assert parent is not None, row
        holder_id = parent.holder_id
    moved = [row.thread_id]
    while moved:
        thread_id = moved.pop()
        w.run("UPDATE threads SET holder_id = ? WHERE thread_id = ?", (holder_id, thread_id))
        children = w.all(
            "SELECT thread_id FROM threads WHERE parent_thread_id = ? AND access = 'inherit'",
            (thread_id,),
        )
        moved += [child[0] for child in children]
        w.tell(AccessChanged(None, thread_id))


def _reread_or_gone(w: Write, caller: Caller, thread_id: str) -> wire.Thread:
    """Return the thread also to somebody whose own change ended the access to it."""
    row = find_thread(w, thread_id)
    if row is None:
        raise thread_not_found()
    return row.seen_as(_role(w, caller, thread_id))
