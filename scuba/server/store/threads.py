"""Threads as they are seen, listed and changed (4)."""

from collections.abc import Callable
from typing import Any

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import (
    THREAD_COLUMNS,
    Standing,
    ThreadRow,
    role_on,
    standing,
)
from scuba.server.store.changes import AccessChanged, Caller
from scuba.server.store.dead_runs import end_dead_runs
from scuba.server.store.engine import Tx, Write
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.log import server_event
from scuba.server.store.succession import keeping_owners
from scuba.server.store.text import check_text, read_moment
from scuba.wire.base import TITLE_CHARACTERS

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


def seen_by(tx: Tx, caller: Caller, thread_id: str) -> wire.Thread | None:
    """Return a thread that exists, with the caller's role: None when it reads it no longer."""
    row = find_thread(tx, thread_id)
    return None if row is None else row.seen_as(role_on(tx, caller, thread_id)[0])


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
        _move(w, at, new.access)
    server_event(w, thread_id, caller.id, "thread_updated", told)
    after = seen_by(w, caller, thread_id)
    assert after is not None, thread_id
    return after


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


def _move(w: Write, at: Standing, access: wire.Access) -> None:
    """Take a thread's participants from elsewhere; what is for them no longer, ends (3.3, 5.6)."""
    thread_id, holder_id = at.thread.thread_id, at.thread.thread_id
    if access == "inherit" and at.thread.parent_thread_id is not None:
        parent = find_thread(w, at.thread.parent_thread_id)
        assert parent is not None, at.thread
        holder_id = parent.holder_id
    elif at.kind == "bot":
        raise Problem(403, "forbidden", "a bot shuts nobody out of a thread that is inherited")
    with keeping_owners(w, at.thread.holder_id, holder_id):
        w.run(_MOVE, (holder_id, thread_id))
    w.tell(AccessChanged(None, thread_id))
    end_dead_runs(w, thread_id=holder_id)


_MOVE = """
UPDATE threads SET holder_id = ? WHERE thread_id IN (
    WITH RECURSIVE below (thread_id) AS (
        SELECT thread_id FROM threads WHERE thread_id = ?
        UNION ALL
        SELECT t.thread_id FROM threads t JOIN below b ON t.parent_thread_id = b.thread_id
        WHERE t.access = 'inherit'
    ) SELECT thread_id FROM below)
"""
