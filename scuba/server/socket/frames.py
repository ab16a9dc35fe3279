"""Frames as text: read strictly, written with what a reader must know spelled out (8.10)."""

from collections.abc import Iterator, Sequence

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.decode import strict
from scuba.server.socket.tail import Line
from scuba.server.spelling import spelled_fields

EVENTS_A_FRAME = 200
_ROOM_BYTES = 1_024
"""What the words round the events of a frame may take; ids are at most 160 characters."""

_DECODER = msgspec.json.Decoder(wire.ClientFrame)


def read_frame(text: str) -> wire.ClientFrame:
    """Return the frame in `text`. Raises Problem `invalid_frame`."""
    try:
        raw = text.encode()
        strict(raw)
        return _DECODER.decode(raw)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise Problem(400, "invalid_frame", str(error)) from None
    except Problem as error:
        raise Problem(400, "invalid_frame", error.detail) from None


def write_frame(frame: wire.ServerFrame) -> str:
    """Return a frame's text, with `type` first."""
    tag = type(frame).__struct_config__.tag
    return msgspec.json.encode({"type": tag, **spelled_fields(frame)}).decode()


def events_frame(thread_id: str, lines: Sequence[Line]) -> str:
    """Return a `server.events` of events that are bytes already."""
    events = b",".join(line.text for line in lines).decode()
    return f'{{"type":"server.events","threadId":"{thread_id}","events":[{events}]}}'


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
) -> Iterator[str]:
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
        yield msgspec.json.encode({"type": "server.grants_snapshot", **head}).decode()
        if not rest:
            return
