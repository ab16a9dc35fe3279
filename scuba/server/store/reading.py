"""Reading a thread's log: pages in both directions, single events, runs (7)."""

from collections.abc import Sequence

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Row, Tx
from scuba.server.store.listing import MOST, check_limit

PAGE_BYTES = 1_048_576
ALIGN_EVENTS = 2_000
"""How far a page may be extended downwards so that it cuts no run."""

MOST_TYPES = 50

_STEP = 100
"""Rows fetched at once: events can be large, and a page ends at a size too."""
_EVENT_BYTES = 250
"""What the names and short fields of an envelope take at most."""
_RUN_TYPES = {"message_part", "run_started", "run_finished"}
_COLUMNS = "id, thread_id, seq, ts, principal_id, type, run_id, payload, key, role, bare_left"


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
    wanted = _Range(tx, caller.id, thread_id, ask)
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
        next_after=events[-1].seq if more and not ask.downwards else None,
        next_before=events[0].seq if more and ask.downwards else None,
        aligned=aligned,
    )


def read(
    tx: Tx, reader_id: str, thread_id: str, after: int, limit: int, max_bytes: int
) -> list[wire.Envelope]:
    """Return what follows a seq, for somebody who was found to have access."""
    return _Range(tx, reader_id, thread_id, Ask(after=after)).take(limit, max_bytes)[0]


class _Range:
    """Events of a thread in one direction, within bounds and filters."""

    def __init__(self, tx: Tx, reader_id: str, thread_id: str, ask: Ask) -> None:
        self.tx, self.reader_id, self.thread_id = tx, reader_id, thread_id
        self.floor = ask.after or 0
        self._top = ask.before
        self._downwards = ask.downwards
        self._filter, self._args = _filters(ask)

    def take(self, count: int, max_bytes: int) -> tuple[list[wire.Envelope], bool]:
        """Return up to `count` events, ascending, and whether there are more that way."""
        rows, size = self._fetch(self.floor, self._top, min(count + 1, _STEP)), 0
        taken: list[wire.Envelope] = []
        while rows:
            for row in rows:
                event = _envelope(row, self.reader_id)
                size += _size(event)
                if len(taken) == count or (taken and size > max_bytes):
                    return self._ascending(taken), True
                taken.append(event)
            rows = self._beyond(taken[-1].seq, min(count + 1 - len(taken), _STEP))
        return self._ascending(taken), False

    def below(self, seq: int, floor: int, max_bytes: int) -> list[wire.Envelope]:
        """Return the events before `seq` down to and with `floor`, as far as the size allows."""
        taken, _ = _Range(
            self.tx,
            self.reader_id,
            self.thread_id,
            Ask(before=seq),
        ).take(seq - floor, max_bytes)
        return taken

    def _beyond(self, seq: int, count: int) -> list[Row]:
        if self._downwards:
            return self._fetch(self.floor, seq, count)
        return self._fetch(seq, self._top, count)

    def _fetch(self, floor: int, top: int | None, count: int) -> list[Row]:
        order = "DESC" if self._downwards else "ASC"
        return self.tx.all(
            f"SELECT {_COLUMNS} FROM events WHERE thread_id = ? AND seq > ? AND seq < ?"
            f"{self._filter} ORDER BY seq {order} LIMIT ?",
            (self.thread_id, floor, wire.MAX_INTEGER if top is None else top, *self._args, count),
        )

    def _ascending(self, events: list[wire.Envelope]) -> list[wire.Envelope]:
        return events[::-1] if self._downwards else events


def _filters(ask: Ask) -> tuple[str, list[object]]:
    where, args = "", list[object]()
    if ask.run_id is not None:
        where += " AND run_id = ?"
        args.append(ask.run_id)
    if ask.types:
        where += f" AND type IN ({', '.join('?' * len(ask.types))})"
        args += ask.types
    return where, args


def _align(
    wanted: _Range, events: list[wire.Envelope], more: bool
) -> tuple[list[wire.Envelope], bool, bool]:
    """Extend a page downwards, below its floor too, until it cuts no foreign run."""
    if not events:
        return events, True, more
    bottom = events[0].seq - ALIGN_EVENTS
    fresh, size = events, 0
    while (first := _earliest(wanted, fresh)) is not None and first < events[0].seq:
        floor = max(first, bottom, 1)
        fresh = wanted.below(events[0].seq, floor, PAGE_BYTES - size)
        size += sum(map(_size, fresh))
        events = [*fresh, *events]
        if events[0].seq > first:
            return events, False, events[0].seq > wanted.floor + 1
    return events, True, more and events[0].seq > wanted.floor + 1


def _earliest(wanted: _Range, events: Sequence[wire.Envelope]) -> int | None:
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
        f"SELECT {_COLUMNS} FROM events WHERE thread_id = ? AND seq = ?",
        (thread_id, max(0, min(seq, wire.MAX_INTEGER))),
    )
    if row is None:
        raise Problem(404, "not_found", f"no event {seq} on this thread")
    return _envelope(row, caller.id)


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


def _size(event: wire.Envelope) -> int:
    """Return at least the bytes that an event takes on the wire."""
    ids = (event.thread_id, event.principal_id, event.type, event.run_id or "", event.key or "")
    return len(bytes(event.payload)) + sum(map(len, ids)) + _EVENT_BYTES


def _envelope(row: Row, reader_id: str) -> wire.Envelope:
    id_, thread_id, seq, ts, principal_id, type_, run_id, payload, key, role, bare_left = row
    return wire.Envelope(
        id=id_,
        thread_id=thread_id,
        seq=seq,
        ts=ts,
        principal_id=principal_id,
        type=type_,
        run_id=run_id,
        payload=msgspec.Raw(payload.encode()),
        key=key if principal_id == reader_id else None,
        role=role,
        bare_left=bare_left,
    )
