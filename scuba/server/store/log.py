"""The one place where events get their seq (16.2): in order, without a gap, told once committed."""

from collections.abc import Sequence

import msgspec

from actors.events import Role
from scuba import wire
from scuba.server.store.changes import Committed
from scuba.server.store.engine import Write
from scuba.server.store.ids import ordered_ids


class Fresh(msgspec.Struct, kw_only=True, gc=False):
    """An event that is about to get its seq."""

    type: str
    payload: bytes
    run_id: str | None = None
    key: str | None = None
    role: Role | None = None
    bare_left: int | None = None
    digest: bytes | None = None


def write_events(
    w: Write, thread_id: str, principal_id: str, fresh: Sequence[Fresh]
) -> list[wire.Envelope]:
    """Give events the next seqs of a thread, in order and without a gap (16.2); tell of them."""
    if not fresh:
        return []
    row = w.one(
        "UPDATE threads SET last_seq = last_seq + ?, last_event_at = ? WHERE thread_id = ?"
        " RETURNING last_seq",
        (len(fresh), w.now, thread_id),
    )
    assert row is not None, thread_id
    first = int(row[0]) - len(fresh) + 1
    ids = ordered_ids("evt_", w.now_ms, len(fresh))
    envelopes = [
        wire.Envelope(
            id=ids[offset],
            thread_id=thread_id,
            seq=first + offset,
            ts=w.now,
            principal_id=principal_id,
            type=event.type,
            run_id=event.run_id,
            payload=msgspec.Raw(event.payload),
            key=event.key,
            role=event.role,
            bare_left=event.bare_left,
        )
        for offset, event in enumerate(fresh)
    ]
    w.many(
        "INSERT INTO events (thread_id, seq, id, ts, principal_id, type, run_id, key, role,"
        " bare_left, digest, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                thread_id,
                envelope.seq,
                envelope.id,
                w.now,
                principal_id,
                event.type,
                event.run_id,
                event.key,
                event.role,
                event.bare_left,
                event.digest,
                event.payload.decode(),
            )
            for envelope, event in zip(envelopes, fresh, strict=True)
        ],
    )
    w.tell(Committed(thread_id, tuple(envelopes)))
    return envelopes


def server_event(w: Write, thread_id: str, by: str, type_: str, payload: object) -> int:
    """Append one event of the server's own, in the acting principal's name. Returns its seq."""
    event = Fresh(type=type_, payload=msgspec.json.encode(payload))
    return write_events(w, thread_id, by, [event])[0].seq
