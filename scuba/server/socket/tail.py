"""The newest events of a thread somebody follows, each turned into bytes once for all readers."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from scuba import wire

EVENTS = 256
SIZE_BYTES = 262_144


class Line(NamedTuple):
    """One event as one reader gets it."""

    seq: int
    text: bytes


class _Entry(NamedTuple):
    seq: int
    author: str
    public: bytes
    own: bytes


class Tail:
    """A gapless run of events that ends at the newest; bounded, so it may not reach back."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self._size_bytes = 0

    def add(self, events: Iterable[wire.Envelope]) -> None:
        """Take events as committed. A hole before them makes everything older useless."""
        for event in events:
            if self._entries and event.seq != self._entries[-1].seq + 1:
                self._entries.clear()
                self._size_bytes = 0
            entry = _entry(event)
            self._entries.append(entry)
            self._size_bytes += len(entry.own)
        while len(self._entries) > EVENTS or self._size_bytes > SIZE_BYTES:
            self._size_bytes -= len(self._entries.popleft().own)

    def after(self, seq: int, reader: str, most: int) -> list[Line] | None:
        """Return up to `most` events after `seq`; None when the tail does not reach back to it."""
        if not self._entries or self._entries[0].seq > seq + 1:
            return None
        start = seq + 1 - self._entries[0].seq
        return [
            Line(entry.seq, entry.own if entry.author == reader else entry.public)
            for entry in islice(self._entries, start, start + most)
        ]


def line(event: wire.Envelope, reader: str) -> Line:
    """Return an event as `reader` may see it: a key is for its author only (5.1)."""
    if event.key is not None and event.principal_id != reader:
        event = msgspec.structs.replace(event, key=None)
    return Line(event.seq, msgspec.json.encode(event))


def _entry(event: wire.Envelope) -> _Entry:
    own = msgspec.json.encode(event)
    public = own if event.key is None else line(event, "").text
    return _Entry(event.seq, event.principal_id, public, own)
