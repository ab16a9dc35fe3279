"""Reading a thread's log: pages in both directions, single events, runs (7)."""

from collections.abc import Sequence

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx
from scuba.server.store.listing import MOST, check_limit
from scuba.server.store.walking import COLUMNS, Bounds, Walk, envelope, size_bytes

PAGE_BYTES = 1_048_576
ALIGN_EVENTS = 2_000
"""How far a page may be extended downwards so that it cuts no run."""

MOST_TYPES = 50
_RUN_TYPES = {"message_part", "run_started", "run_finished"}


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What of the log is wanted (7.1)."""

    after: int | None = None
    before: int | None = None
    tail: int | None = None
    align_runs: bool = False
    run_id: str | None = None
    types: tuple[str, ...] = ()
    limit: int = 200

    def check(self) -> None:
        """Raise Problem 400 `invalid_query` for what does not go together."""
        check_limit(self.limit)
        if self.before is not None and not (self.after is None and self.tail is None):
            raise _invalid("before goes with neither after nor tail")
        if self.tail is not None and not 1 <= self.tail <= MOST:
            raise _invalid(f"tail must be 1 to {MOST}")
        if len(self.types) > MOST_TYPES:
            raise _invalid(f"type names at most {MOST_TYPES}")
        for name, value in (("after", self.after), ("before", self.before)):
            if value is not None and not 0 <= value <= wire.MAX_INTEGER:
                raise _invalid(f"{name} must be 0 to 2^53 - 1")
        if self.align_runs and self.before is None and self.tail is None:
            raise _invalid("alignRuns needs tail or before")
        if self.align_runs and (self.run_id is not None or self.types):
            raise _invalid("alignRuns goes with neither runId nor type")

    @property
    def bounds(self) -> Bounds:
        """Return between which seqs."""
        return Bounds(self.after or 0, wire.MAX_INTEGER if self.before is None else self.before)

    @property
    def downwards(self) -> bool:
        """Return whether the newest of what is asked come first."""
        return self.before is not None or self.tail is not None


def _invalid(detail: str) -> Problem:
    return Problem(400, "invalid_query", detail)


# --- pages -------------------------------------------------------------------------------------


def page(tx: Tx, caller: Caller, thread_id: str, ask: Ask, log_epoch: str) -> wire.Page:
    """Return a page in ascending order. Raises Problem 400 and 404."""
    at = standing(tx, caller, thread_id)
    ask.check()
    wanted = _walk(tx, caller.id, thread_id, ask)
    count = ask.tail if ask.tail is not None else ask.limit
    events, more = wanted.take(count, PAGE_BYTES)
    aligned = None
    if ask.align_runs:
        events, aligned, more = _align(wanted, events, more)
    return wire.Page(
        thread_id=thread_id,
        log_epoch=log_epoch,
        events=events,
        first_seq=at.thread.first_seq,
        last_seq=at.thread.last_seq,
        has_more=more,
        next_after=wanted.reached if more and not ask.downwards else None,
        next_before=_next_before(wanted, events) if more and ask.downwards else None,
        aligned=aligned,
    )


def read(
    tx: Tx, reader_id: str, thread_id: str, after: int, limit: int, max_bytes: int
) -> list[wire.Envelope]:
    """Return what follows a seq, for somebody who was found to have access."""
    return _walk(tx, reader_id, thread_id, Ask(after=after)).take(limit, max_bytes)[0]


def _walk(tx: Tx, reader_id: str, thread_id: str, ask: Ask) -> Walk:
    return Walk(
        tx,
        reader_id,
        thread_id,
        ask.bounds,
        downwards=ask.downwards,
        run_id=ask.run_id,
        types=ask.types,
    )


def _next_before(wanted: Walk, events: Sequence[wire.Envelope]) -> int:
    """Return where the walk goes on; below what was added to make whole the runs."""
    return min(wanted.reached, events[0].seq) if events else wanted.reached


def _align(
    wanted: Walk, events: list[wire.Envelope], more: bool
) -> tuple[list[wire.Envelope], bool, bool]:
    """Extend a page downwards, below its floor too, until it cuts no foreign run."""
    if not events:
        return events, True, more
    bottom = events[0].seq - ALIGN_EVENTS
    fresh, size = events, 0
    while (first := _earliest(wanted, fresh)) is not None and first < events[0].seq:
        floor = max(first, bottom, 1)
        fresh = wanted.below(events[0].seq, floor, PAGE_BYTES - size)
        size += sum(map(size_bytes, fresh))
        events = [*fresh, *events]
        if events[0].seq > first:
            return events, False, events[0].seq > wanted.bounds.floor + 1
    return events, True, more and events[0].seq > wanted.bounds.floor + 1


def _earliest(wanted: Walk, events: Sequence[wire.Envelope]) -> int | None:
    """Return where the earliest foreign run with a part among these events begins."""
    ids = {event.run_id for event in events if event.type in _RUN_TYPES}
    ids.discard(None)
    if not ids:
        return None
    row = wanted.tx.one(
        "SELECT MIN(first_seq) FROM runs WHERE thread_id = ? AND principal_id <> ?"
        f" AND run_id IN ({', '.join('?' * len(ids))})",
        (wanted.thread_id, wanted.reader_id, *ids),
    )
    return None if row is None else row[0]


# --- single things -----------------------------------------------------------------------------


def event(tx: Tx, caller: Caller, thread_id: str, seq: int) -> wire.Envelope:
    """Return one event. Raises Problem 404 `not_found`."""
    standing(tx, caller, thread_id)
    row = tx.one(
        f"SELECT {COLUMNS} FROM events WHERE thread_id = ? AND seq = ?",
        (thread_id, max(0, min(seq, wire.MAX_INTEGER))),
    )
    if row is None:
        raise Problem(404, "not_found", f"no event {seq} on this thread")
    return envelope(row, caller.id)


def run(tx: Tx, caller: Caller, thread_id: str, run_id: str) -> wire.RunView:
    """Return where a run lies and how it stands. Raises Problem 404 `run_not_found`."""
    standing(tx, caller, thread_id)
    row = tx.one(
        "SELECT principal_id, first_seq, last_seq, status FROM runs"
        " WHERE thread_id = ? AND run_id = ?",
        (thread_id, run_id),
    )
    if row is None:
        raise Problem(404, "run_not_found", f"no run {run_id} on this thread")
    return wire.RunView(
        run_id=run_id, principal_id=row[0], first_seq=row[1], last_seq=row[2], status=row[3]
    )
