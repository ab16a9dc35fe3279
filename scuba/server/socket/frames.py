"""Frames as bytes: read strictly, written with what a reader must know spelled out (8.10)."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.listener import text_frame
from scuba.server.spelling import spelled_fields
from scuba.server.strictness import strict

EVENTS_A_FRAME = 200
_ROOM_BYTES = 1_024
"""What the words round the events of a frame may take; ids are at most 160 characters."""


class Line(NamedTuple):
    """One event as one reader gets it."""

    seq: int
    text: bytes


class Parcel:
    """A frame and, made once, what stands of it on the wire. Many sockets may send the same."""

    def __init__(self, text: bytes, seq: int | None = None, count: int = 0) -> None:
        self.text = text
        self.seq, self.count = seq, count
        """Of a frame of events: the last seq in it, and how many there are."""

    @cached_property
    def frame(self) -> bytes:
        """Return it as the listener sends it."""
        return text_frame(self.text)


def read_frame(text: str) -> wire.ClientFrame:
    """Return the frame in `text`; null counts as absent. Raises Problem `invalid_frame`."""
    try:
        told = strict(text.encode())
        given = {name: value for name, value in told.items() if value is not None}
        frame: wire.ClientFrame = msgspec.convert(given, wire.ClientFrame)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise Problem(400, "invalid_frame", str(error)) from None
    except Problem as error:
        raise Problem(400, "invalid_frame", error.detail) from None
    return frame


def write_frame(frame: wire.ServerFrame) -> bytes:
    """Return a frame's text, with `type` first."""
    tag = type(frame).__struct_config__.tag
    return msgspec.json.encode({"type": tag, **spelled_fields(frame)})


def events_frame(thread_id: str, lines: Sequence[Line]) -> bytes:
    """Return a `server.events` of events that are bytes already."""
    head = f'{{"type":"server.events","threadId":"{thread_id}","events":['
    return b"%b%b]}" % (head.encode(), b",".join([line.text for line in lines]))


def pack(thread_id: str, lines: Sequence[Line], goal: int | None, room: int) -> Parcel:
    """Return the first of `lines` as one frame; up to the goal first, so that it can be told."""
    due = [line for line in lines if goal is None or line.seq <= goal]
    taken = fitting(due, room)
    return Parcel(events_frame(thread_id, taken), taken[-1].seq if taken else None, len(taken))


def fitting(lines: Sequence[Line], frame_bytes: int) -> list[Line]:
    """Return the first of `lines` that one frame holds: at least one, at most 200."""
    room = frame_bytes - _ROOM_BYTES
    taken: list[Line] = []
    for line in lines[:EVENTS_A_FRAME]:
        room -= len(line.text) + 1
        if taken and room < 0:
            break
        taken.append(line)
    return taken


def snapshot_frames(
    grant_seq: int, grants: Sequence[wire.Grant], frame_bytes: int, ref: str | None
) -> Iterator[bytes]:
    """Yield the frames of a snapshot: one `grantSeq`, `more` on all but the last (9.1)."""
    rest = [msgspec.json.encode(grant) for grant in grants]
    while True:
        room, count = frame_bytes - _ROOM_BYTES, 0
        for text in rest:
            room -= len(text) + 1
            if count and room < 0:
                break
            count += 1
        part, rest = rest[:count], rest[count:]
        frame = wire.ServerGrantsSnapshot(grant_seq=grant_seq, grants=[], more=bool(rest), ref=ref)
        head = {**spelled_fields(frame), "grants": [msgspec.Raw(text) for text in part]}
        yield msgspec.json.encode({"type": "server.grants_snapshot", **head})
        if not rest:
            return
