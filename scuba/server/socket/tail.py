"""The newest events of a thread somebody follows, each turned into bytes once for all readers."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from scuba import wire
from scuba.server.socket.frames import EVENTS_A_FRAME, Line, Parcel, pack

EVENTS = 256
SIZE_BYTES = 2_097_152
"""A whole batch (12) fits, as its author sees it and as others do."""
ALL_BYTES = 33_554_432
"""What the events of all tails together may take; the log has the rest."""
PARCELS = 2
"""So many frames are kept for the next reader at the same place, until the next event."""


class _Entry(NamedTuple):
    seq: int
    author: str
    public: bytes
    own: bytes


class Tail:
    """A gapless run of events that ends at the newest; bounded, so it may not reach back."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._entries: deque[_Entry] = deque()
        self._authors: Counter[str] = Counter()
        self._parcels: dict[tuple[int, str, int | None], Parcel] = {}
        self.size_bytes = 0

    def add(self, events: Iterable[wire.Envelope]) -> None:
        """Take events as committed. A hole before them makes everything older useless."""
        self._parcels.clear()
        for event in events:
            if self._entries and event.seq != self._entries[-1].seq + 1:
                self.clear()
            entry = _entry(event)
            self._entries.append(entry)
            self._authors[entry.author] += 1
            self.size_bytes += _size(entry)
        while len(self._entries) > EVENTS or self.size_bytes > SIZE_BYTES:
            self._forget_oldest()

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._authors.clear()
        self._parcels.clear()
        self.size_bytes = 0

    def _forget_oldest(self) -> None:
        gone = self._entries.popleft()
        self.size_bytes -= _size(gone)
        self._authors[gone.author] -= 1
        if not self._authors[gone.author]:
            del self._authors[gone.author]

    def after(self, seq: int, reader: str, most: int) -> list[Line] | None:
        """Return up to `most` events after `seq`; None when the tail does not reach back to it."""
        if not self._entries or self._entries[0].seq > seq + 1:
            return None
        start = seq + 1 - self._entries[0].seq
        return [
            Line(entry.seq, entry.own if entry.author == reader else entry.public)
            for entry in islice(self._entries, start, start + most)
        ]

    def parcel(self, seq: int, reader: str, goal: int | None, room: int) -> Parcel | None:
        """Return the frame that follows `seq`, one for all who are there; None as for `after`."""
        view = reader if reader in self._authors else ""
        key = (seq, view, goal)
        found = self._parcels.get(key)
        if found is None:
            lines = self.after(seq, view, EVENTS_A_FRAME)
            if lines is None:
                return None
            found = pack(self._thread_id, lines, goal, room)
            if len(self._parcels) < PARCELS:
                self._parcels[key] = found
        return found


class Tails:
    """The tails of all followed threads: together bounded too; who was quiet longest gives way."""

    def __init__(self, most_bytes: int = ALL_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Tail, None] = OrderedDict()
        self.size_bytes = 0

    def add(self, tail: Tail, events: Iterable[wire.Envelope]) -> None:
        """Add events to a tail."""
        self.size_bytes -= tail.size_bytes
        tail.add(events)
        self.size_bytes += tail.size_bytes
        self._kept[tail] = None
        self._kept.move_to_end(tail)
        while self.size_bytes > self._most_bytes and len(self._kept) > 1:
            oldest, _ = self._kept.popitem(last=False)
            self.size_bytes -= oldest.size_bytes
            oldest.clear()

    def drop(self, tail: Tail) -> None:
        """Nobody follows it any more."""
        if tail in self._kept:
            del self._kept[tail]
            self.size_bytes -= tail.size_bytes


def line(event: wire.Envelope, reader: str) -> Line:
    """Return an event as `reader` may see it: a key is for its author only (5.1)."""
    if event.key is not None and event.principal_id != reader:
        event = msgspec.structs.replace(event, key=None)
    return Line(event.seq, msgspec.json.encode(event))


def _entry(event: wire.Envelope) -> _Entry:
    own = msgspec.json.encode(event)
    public = own if event.key is None else line(event, "").text
    return _Entry(event.seq, event.principal_id, public, own)


def _size(entry: _Entry) -> int:
    return len(entry.own) if entry.own is entry.public else len(entry.own) + len(entry.public)
