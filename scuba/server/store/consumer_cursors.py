"""Consumer cursors: how far each reader of a thread says it has come (10). Never back."""

import re
from collections.abc import Iterable

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.text import check_form

CONSUMER = re.compile(r"[A-Za-z0-9._~-]{1,64}")
MOST_CONSUMERS = 16
"""Names that one principal may use on one thread."""


class CursorKey(msgspec.Struct, frozen=True):
    """Whose cursor it is, and on what."""

    thread_id: str
    principal_id: str
    consumer: str


class Mark(msgspec.Struct, frozen=True):
    """Where a cursor stands, since when."""

    seq: int
    updated_at: str


def check(tx: Tx, caller: Caller, key: CursorKey, seq: int) -> int | None:
    """Return the seq that is stored, None when there is no such cursor yet.

    Raises Problem 404, 400 for the consumer's name, 409 `future_cursor` above the head.
    """
    at = standing(tx, caller, key.thread_id)
    check_form("consumer", key.consumer, CONSUMER, "invalid_query")
    last_seq = at.thread.last_seq
    if seq > last_seq:
        raise Problem(409, "future_cursor", "seq is beyond the log", last_seq=last_seq)
    row = tx.one(
        "SELECT seq FROM consumer_cursors WHERE thread_id = ? AND principal_id = ?"
        " AND consumer = ?",
        (key.thread_id, key.principal_id, key.consumer),
    )
    return None if row is None else int(row[0])


def begin(w: Write, caller: Caller, key: CursorKey, seq: int) -> int:
    """Store a cursor that was not there. Returns the seq that is held."""
    held = check(w, caller, key, seq)
    if held is not None and held >= seq:
        return held
    if held is None:
        _check_room(w, key)
    keep(w, [(key, Mark(seq, w.now))])
    return seq


def keep(w: Write, marks: Iterable[tuple[CursorKey, Mark]]) -> None:
    """Store where cursors stand, each only if that is further than before."""
    w.many(
        "INSERT INTO consumer_cursors (thread_id, principal_id, consumer, seq, updated_at)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (thread_id, principal_id, consumer)"
        " DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at"
        " WHERE consumer_cursors.seq < excluded.seq",
        [
            (key.thread_id, key.principal_id, key.consumer, mark.seq, mark.updated_at)
            for key, mark in marks
        ],
    )


def listing(
    tx: Tx, caller: Caller, thread_id: str, *, limit: int, after: str | None
) -> tuple[list[wire.ConsumerCursor], str | None]:
    """Return the cursors of those who take part, by name, and where the next page begins.

    Whoever has left, or is disabled, is not listed; nor is who reads only as system owner.
    """
    standing(tx, caller, thread_id)
    start = place(after, 2)
    where, args = "", list[object]()
    if start is not None:
        where = " AND (c.principal_id > ? OR c.principal_id = ? AND c.consumer > ?)"
        args = [start[0], *start]
    rows = tx.all(
        "SELECT c.principal_id, c.consumer, c.seq, c.updated_at FROM consumer_cursors c"
        " JOIN threads t ON t.thread_id = c.thread_id"
        " JOIN principals p ON p.principal_id = c.principal_id"
        " WHERE c.thread_id = ? AND p.disabled_at IS NULL AND EXISTS (SELECT 1 FROM grants g"
        " WHERE g.target_type = 'thread' AND g.target_id IN (t.thread_id, t.holder_id)"
        f" AND g.principal_id = c.principal_id){where}"
        " ORDER BY c.principal_id, c.consumer LIMIT ?",
        (thread_id, *args, check_limit(limit) + 1),
    )
    found = [
        wire.ConsumerCursor(principal_id=row[0], consumer=row[1], seq=row[2], updated_at=row[3])
        for row in rows
    ]
    page, on = cut(found, limit, lambda cursor: (cursor.principal_id, cursor.consumer))
    return list(page), on


def _check_room(tx: Tx, key: CursorKey) -> None:
    row = tx.one(
        "SELECT COUNT(*) FROM consumer_cursors WHERE thread_id = ? AND principal_id = ?",
        (key.thread_id, key.principal_id),
    )
    if row is not None and row[0] >= MOST_CONSUMERS:
        detail = f"a principal has at most {MOST_CONSUMERS} consumers on a thread"
        raise Problem(409, "limit_reached", detail)
