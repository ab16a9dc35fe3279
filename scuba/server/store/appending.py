"""Appending to a thread: the grant, the repeats, then every other rule, in one transaction (6)."""

from collections.abc import Collection, Sequence
from typing import cast

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import Standing, standing
from scuba.server.store.changes import Caller
from scuba.server.store.drafts import Draft
from scuba.server.store.engine import Tx, Write
from scuba.server.store.judging import Judge
from scuba.server.store.log import Fresh, write_events
from scuba.server.store.runs import Run, RunBook, Status


class _Kept(msgspec.Struct, frozen=True):
    """What the log already holds under a key."""

    receipt: wire.Receipt
    digest: bytes


class _Place(msgspec.Struct, frozen=True, gc=False):
    """Where one event of the batch is answered from: an old receipt, or a new event."""

    kept: wire.Receipt | None
    offset: int = 0
    repeated: bool = False
    """Whether the same key came before in this batch."""


def append(
    w: Write,
    caller: Caller,
    thread_id: str,
    body: wire.NewEvents,
    drafts: Sequence[Draft],
    log_epoch: str,
) -> tuple[bool, wire.Receipts]:
    """Append what is new in a batch, whole or not at all. Returns whether anything was new.

    Raises Problem as chapters 5, 6 and 13 say, with the index of the event.
    """
    at = standing(w, caller, thread_id)
    places, new = _sort_out(drafts, _find_kept(w, caller.id, thread_id, drafts))
    written: list[wire.Envelope] = []
    if new:
        _check_place(at, body, log_epoch)
        written = _write(w, caller.id, at, new)
    return bool(new), wire.Receipts(
        events=[_receipt(place, written) for place in places],
        last_seq=written[-1].seq if written else at.thread.last_seq,
    )


def _find_kept(tx: Tx, author_id: str, thread_id: str, drafts: Sequence[Draft]) -> dict[str, _Kept]:
    keys = _known(tx, author_id, thread_id, {draft.key for draft in drafts if draft.key})
    if not keys:
        return {}
    rows = tx.all(  # key IN (…) with eight keys or more has SQLite go along the whole thread
        f"WITH wanted (key) AS (VALUES {', '.join(['(?)'] * len(keys))})"
        " SELECT e.key, e.id, e.seq, e.ts, e.digest FROM wanted CROSS JOIN events e"
        " WHERE e.thread_id = ? AND e.principal_id = ? AND e.key = wanted.key",
        (*keys, thread_id, author_id),
    )
    return {
        key: _Kept(wire.Receipt(id=id_, seq=seq, ts=ts, key=key, duplicate=True), digest)
        for key, id_, seq, ts, digest in rows
    }


def _known(tx: Tx, author_id: str, thread_id: str, keys: Collection[str]) -> list[str]:
    """Return those of the keys that were used: seldom one, so this is what must be quick.

    One look into the index for each, whatever a planner thinks: without statistics PostgreSQL
    would join them with all that the author ever said on the thread.
    """
    if not keys:
        return []
    rows = tx.all(
        f"WITH wanted (key) AS (VALUES {', '.join(['(?)'] * len(keys))})"
        " SELECT key, (SELECT e.seq FROM events e WHERE e.thread_id = ? AND e.principal_id = ?"
        " AND e.key = wanted.key) FROM wanted",
        (*keys, thread_id, author_id),
    )
    return [key for key, seq in rows if seq is not None]


def _sort_out(
    drafts: Sequence[Draft], kept: dict[str, _Kept]
) -> tuple[list[_Place], list[tuple[int, Draft]]]:
    """Tell repeats from what is new (6.2), before anything else is said about an event."""
    places: list[_Place] = []
    new: list[tuple[int, Draft]] = []
    offsets: dict[str, int] = {}
    for index, draft in enumerate(drafts):
        if draft.key is not None and (old := kept.get(draft.key)) is not None:
            if old.digest != draft.digest:
                raise _conflict(index, draft.key, f"at seq {old.receipt.seq}", old.receipt.seq)
            places.append(_Place(old.receipt))
        elif draft.key is not None and draft.key in offsets:
            offset = offsets[draft.key]
            if new[offset][1].digest != draft.digest:
                raise _conflict(index, draft.key, "in this batch")
            places.append(_Place(None, offset, repeated=True))
        else:
            if draft.key is not None:
                offsets[draft.key] = len(new)
            places.append(_Place(None, len(new)))
            new.append((index, draft))
    return places, new


def _conflict(index: int, key: str, where: str, seq: int | None = None) -> Problem:
    detail = f"events[{index}]: key {key} was used {where} with other content"
    fields = {"index": index} if seq is None else {"index": index, "seq": seq}
    return Problem(409, "key_conflict", detail, **fields)


def _check_place(at: Standing, body: wire.NewEvents, log_epoch: str) -> None:
    if body.log_epoch is not None and body.log_epoch != log_epoch:
        raise Problem(409, "epoch_changed", "this is another log", log_epoch=log_epoch)
    at.require_open()
    last_seq = at.thread.last_seq
    if body.expected_seq is not None and body.expected_seq != last_seq:
        raise Problem(409, "seq_conflict", f"the last seq is {last_seq}", last_seq=last_seq)


def _write(
    w: Write, author_id: str, at: Standing, new: Sequence[tuple[int, Draft]]
) -> list[wire.Envelope]:
    thread_id = at.thread.thread_id
    book = RunBook(author_id, _find_runs(w, thread_id, [draft for _, draft in new]))
    judge = Judge(w, at, author_id, book)
    fresh = [judge.admit(draft, index, offset) for offset, (index, draft) in enumerate(new)]
    _count_down(fresh, book.bare_lengths())
    written = write_events(w, thread_id, author_id, fresh)
    _keep_runs(w, thread_id, book, written[0].seq)
    w.many(
        "INSERT INTO tool_calls (thread_id, run_id, tool_call_id) VALUES (?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        [(thread_id, run_id, call_id) for run_id, call_id in judge.opened],
    )
    return written


def _find_runs(tx: Tx, thread_id: str, drafts: Sequence[Draft]) -> list[Run]:
    ids = list({draft.run_id for draft in drafts if draft.run_id is not None})
    if not ids:
        return []
    marks = ", ".join("?" * len(ids))
    rows = tx.all(
        "SELECT run_id, principal_id, status FROM runs WHERE thread_id = ?"
        f" AND run_id IN ({marks})",
        (thread_id, *ids),
    )
    return [Run(run_id=row[0], principal_id=row[1], status=cast("Status", row[2])) for row in rows]


def _count_down(fresh: Sequence[Fresh], left: dict[str, int]) -> None:
    """Write on each event of a bare message how many are still to come (5.4)."""
    for event in fresh:
        if event.type == "message_part" and event.run_id in left:
            left[event.run_id] -= 1
            event.bare_left = left[event.run_id]


def _keep_runs(w: Write, thread_id: str, book: RunBook, first_seq: int) -> None:
    w.many(
        "INSERT INTO runs (thread_id, run_id, principal_id, first_seq, last_seq, status)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread_id, run_id)"
        " DO UPDATE SET last_seq = excluded.last_seq, status = excluded.status",
        [
            (
                thread_id,
                run.run_id,
                run.principal_id,
                first_seq + run.first_offset,
                first_seq + (run.last_offset or 0),
                run.status,
            )
            for run in book.touched()
        ],
    )


def _receipt(place: _Place, written: Sequence[wire.Envelope]) -> wire.Receipt:
    if place.kept is not None:
        return place.kept
    event = written[place.offset]
    return wire.Receipt(
        id=event.id, seq=event.seq, ts=event.ts, key=event.key, duplicate=place.repeated
    )
