"""The border between the wire and the actors: whatever an author sent, a reader goes on."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.events import (
    ApprovalGiven,
    Event,
    InterruptRequested,
    Part,
    RunFinished,
    RunStarted,
    Unknown,
)
from scuba import wire

ENVELOPE = {
    "id": "evt_1",
    "threadId": "thr_a",
    "seq": 7,
    "ts": "2026-01-01T00:00:00.000Z",
    "principalId": "user-ada",
    "runId": "run_1",
}


def seen(kind: str, payload: bytes) -> Event:
    head = msgspec.json.encode({**ENVELOPE, "type": kind})[:-1]
    raw = head + b',"payload":' + payload + b"}"
    return wire.to_event(wire.decode(msgspec.json.Decoder(wire.Envelope), raw))


def test_a_part_is_read_with_what_readers_need() -> None:
    event = seen("message_part", b'{"chunk":{"type":"text-delta","id":"t","delta":"hi","x":1}}')

    assert isinstance(event.body, Part)
    assert (event.seq, event.run_id, event.body.chunk.delta) == (7, "run_1", "hi")


def test_half_a_character_costs_only_itself() -> None:
    """Field case 9.1."""
    payload = b'{"chunk":{"type":"text-delta","id":"t","delta":"a\\ud83d b \\ud83d\\ude00"}}'

    body = seen("message_part", payload).body

    assert isinstance(body, Part)
    assert body.chunk.delta == "a\N{REPLACEMENT CHARACTER} b \N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("message_part", Unknown()),
        ("run_started", RunStarted()),
        ("run_finished", RunFinished()),
        ("tool_call_approval", Unknown()),
        ("something_new", Unknown()),
    ],
)
@pytest.mark.parametrize("payload", [b"[1]", b'{"status":7,"chunk":"x"}', b"[" * 60 + b"]" * 60])
def test_an_odd_payload_moves_the_cursor_and_a_run_still_begins_and_ends(
    kind: str, body: object, payload: bytes
) -> None:
    assert seen(kind, payload).body == body


@pytest.mark.parametrize("data", [b"{", b'"\\ud83d"x', b"[\xff", b'["\\ud83d", 1]'])
def test_what_is_no_json_or_of_another_shape_is_refused_as_ever(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode(msgspec.json.Decoder(list[str]), data)


@given(st.binary(max_size=40), st.sampled_from(["message_part", "run_finished", "x.y"]))
@example(b'{"chunk":{"type":"x","output":' + b"[" * 2_000 + b"]" * 2_000 + b"}}", "message_part")
def test_no_bytes_at_all_raise(payload: bytes, kind: str) -> None:
    envelope = wire.Envelope(
        id="e",
        thread_id="t",
        seq=1,
        ts="",
        principal_id="p",
        type=kind,
        payload=msgspec.Raw(payload),
    )

    assert wire.to_event(envelope).seq == 1


def test_decisions_and_interrupts_are_read() -> None:
    approval = seen("tool_call_approval", b'{"toolCallId":"c","decision":"deny","reason":"no"}')
    interrupt = seen("run_interrupt_requested", b"{}")

    assert approval.body == ApprovalGiven(tool_call_id="c", decision="deny", reason="no")
    assert interrupt.body == InterruptRequested()


def test_absent_fields_are_left_out_and_null_is_absent() -> None:
    """Chapter 1.2."""
    raw = b'{"type":"client.subscribe","threadId":"t","after":"head","ref":null,"new":1}'

    frame = msgspec.json.decode(raw, type=wire.ClientFrame)

    assert frame == wire.ClientSubscribe(thread_id="t", after="head")
    assert msgspec.json.encode(frame) == (
        b'{"type":"client.subscribe","threadId":"t","after":"head"}'
    )
