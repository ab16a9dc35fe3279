"""Runs whose author may finish them no more: the server does, in the same transaction (5.6)."""

from itertools import groupby

import msgspec

from scuba.server.store.authority import STANDING_COLUMNS, read_standing
from scuba.server.store.changes import SYSTEM
from scuba.server.store.engine import Tx, Write
from scuba.server.store.log import Fresh, write_events

_AUTHOR_GONE = msgspec.json.encode({"status": "failed", "reason": "author_gone"})

_OPEN = f"""
SELECT r.run_id, r.principal_id, {STANDING_COLUMNS} FROM runs r
JOIN threads t ON t.thread_id = r.thread_id JOIN principals p ON p.principal_id = r.principal_id
WHERE r.status = 'open' AND """

_THERE = "r.thread_id IN (SELECT thread_id FROM threads WHERE thread_id = ? OR holder_id = ?)"


def end_dead_runs(w: Write, *, author: str | None = None, thread_id: str | None = None) -> None:
    """Finish what an author can finish no more, after its authority has changed.

    Looks at one author, or at one thread with those that take their participants from it, or at
    both: as narrowly as the change reaches.
    """
    for on, runs in groupby(_find_dead(w, author, thread_id), key=lambda dead: dead[0]):
        finishes = [
            Fresh(type="run_finished", run_id=run_id, payload=_AUTHOR_GONE) for _, run_id in runs
        ]
        for event in write_events(w, on, SYSTEM.id, finishes):
            w.run(
                "UPDATE runs SET status = 'failed', last_seq = ?"
                " WHERE thread_id = ? AND run_id = ?",
                (event.seq, on, event.run_id),
            )


def _find_dead(tx: Tx, author: str | None, thread_id: str | None) -> list[tuple[str, str]]:
    """Return thread and run of each, in the order in which they began on their threads."""
    where, args = list[str](), list[str]()
    if author is not None:
        where.append("r.principal_id = ?")
        args.append(author)
    if thread_id is not None:
        where.append(_THERE)
        args += [thread_id, thread_id]
    rows = tx.all(_OPEN + " AND ".join(where) + " ORDER BY r.thread_id, r.first_seq", args)
    found = [(row[0], read_standing(row[1], row[2:])) for row in rows]
    return [
        (at.thread.thread_id, run_id)
        for run_id, at in found
        if at.disabled or at.acting("run") is None
    ]
