"""Walks along a thread's log, either way, within bounds and filters; none looks without bound."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from scuba import wire
from scuba.server.store.engine import Row, Tx

SCAN = 5_000
"""Events that one page looks at when its filter has no index: then it ends, with more to come."""

_STEP = 100
"""Rows fetched at once: events can be large, and a page ends at a size too."""
_EVENT_BYTES = 250
"""What the names and short fields of an envelope take at most."""
_PARTS = "message_part"
"""By far the most events; the index by type leaves them out."""
COLUMNS = "id, thread_id, seq, ts, principal_id, type, run_id, payload, key, role, bare_left"
"""What `envelope` reads."""


class Bounds(NamedTuple):
    """Seqs above `floor` and below `top`."""

    floor: int
    top: int


class Walk:
    """Events of a thread in one direction."""

    def __init__(
        self,
        tx: Tx,
        reader_id: str,
        thread_id: str,
        bounds: Bounds,
        *,
        downwards: bool,
        run_id: str | None = None,
        types: Sequence[str] = (),
    ) -> None:
        self.tx, self.reader_id, self.thread_id = tx, reader_id, thread_id
        self.bounds = bounds
        self._downwards, self._run_id, self._types = downwards, run_id, tuple(types)
        self.reached = 0
        """When there is more that way: the seq that the next page goes on from."""

    def take(self, count: int, max_bytes: int) -> tuple[list[wire.Envelope], bool]:
        """Return up to `count` events, ascending, and whether there may be more that way."""
        rest, edge = self._window()
        taken: list[wire.Envelope] = []
        size = 0
        while rows := self._fetch(rest, min(count + 1 - len(taken), _STEP)):
            for row in rows:
                event = envelope(row, self.reader_id)
                size += size_bytes(event)
                if len(taken) == count or (taken and size > max_bytes):
                    self.reached = taken[-1].seq
                    return self._ascending(taken), True
                taken.append(event)
            rest = self._beyond(rest, taken[-1].seq)
        if edge is not None:
            self.reached = edge
        return self._ascending(taken), edge is not None

    def below(self, seq: int, floor: int, max_bytes: int) -> list[wire.Envelope]:
        """Return the events before `seq` down to and with `floor`, as far as the size allows."""
        down = Walk(self.tx, self.reader_id, self.thread_id, Bounds(0, seq), downwards=True)
        return down.take(seq - floor, max_bytes)[0]

    def _beyond(self, bounds: Bounds, seq: int) -> Bounds:
        return bounds._replace(top=seq) if self._downwards else bounds._replace(floor=seq)

    def _ascending(self, events: list[wire.Envelope]) -> list[wire.Envelope]:
        return events[::-1] if self._downwards else events

    @property
    def _order(self) -> str:
        return "DESC" if self._downwards else "ASC"

    def _window(self) -> tuple[Bounds, int | None]:
        """Return what one page may look at, and where that ends before the log does."""
        exact = not self._types or (self._run_id is None and _PARTS not in self._types)
        if exact:
            return self.bounds, None
        of_run, args = self._of_run()
        row = self.tx.one(
            f"SELECT seq FROM events WHERE thread_id = ?{of_run} AND seq > ? AND seq < ?"
            f" ORDER BY seq {self._order} LIMIT 1 OFFSET ?",
            (self.thread_id, *args, *self.bounds, SCAN - 1),
        )
        if row is None:
            return self.bounds, None
        edge = int(row[0])
        if self._downwards:
            return self.bounds._replace(floor=edge - 1), edge
        return self.bounds._replace(top=edge + 1), edge

    def _fetch(self, bounds: Bounds, count: int) -> list[Row]:
        by_type = f" AND type IN ({', '.join('?' * len(self._types))})" if self._types else ""
        if self._run_id is None and not (self._types and _PARTS not in self._types):
            where, args = f"seq > ? AND seq < ?{by_type}", (*bounds, *self._types)
        else:
            where, args = self._by_index(bounds, by_type, count)
        return self.tx.all(
            f"SELECT {COLUMNS} FROM events WHERE thread_id = ? AND {where}"
            f" ORDER BY seq {self._order} LIMIT ?",
            (self.thread_id, *args, count),
        )

    def _by_index(self, bounds: Bounds, by_type: str, count: int) -> tuple[str, tuple[object, ...]]:
        """Return the condition that has the seqs found in an index before any event is read.

        Without statistics SQLite goes along the thread itself for the order's sake, all of it.
        """
        find = "SELECT seq FROM events WHERE thread_id = ?{} AND seq > ? AND seq < ?"
        few = f" ORDER BY seq {self._order} LIMIT ?"
        of_run, args = self._of_run()
        if self._run_id is None:
            found = find.format(f"{by_type} AND type <> '{_PARTS}'") + few
            return f"seq IN ({found})", (self.thread_id, *self._types, *bounds, count)
        if not self._types:
            found = find.format(of_run) + few
            return f"seq IN ({found})", (self.thread_id, *args, *bounds, count)
        found = find.format(of_run)
        return f"seq IN ({found}){by_type}", (self.thread_id, *args, *bounds, *self._types)

    def _of_run(self) -> tuple[str, tuple[str, ...]]:
        return ("", ()) if self._run_id is None else (" AND run_id = ?", (self._run_id,))


def size_bytes(event: wire.Envelope) -> int:
    """Return at least the bytes that an event takes on the wire."""
    ids = (event.thread_id, event.principal_id, event.type, event.run_id or "", event.key or "")
    return len(bytes(event.payload)) + sum(map(len, ids)) + _EVENT_BYTES


def envelope(row: Row, reader_id: str) -> wire.Envelope:
    """Return a row of `COLUMNS` as `reader_id` may see it: a key is for its author only."""
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
