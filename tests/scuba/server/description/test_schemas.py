"""The schemas say what the server takes and sends: they and the decoders agree."""

import json
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from scuba import wire
from scuba.errors import Problem
from scuba.server.decode import decode, decode_events
from scuba.server.description import document, names, written
from scuba.server.socket.frames import read_frame, write_frame
from scuba.server.store.drafts import read_drafts
from tests.kit.witness import complaint

LIMITS = wire.Limits()
GRANT = wire.Grant(target=wire.Target(type="thread", thread_id="t1"), role="member")
ENVELOPE = {
    "id": "evt_01JDZ3M6T8Q4V9W2X5Y7Z0A1B2",
    "threadId": "t1",
    "seq": 1,
    "ts": "2026-12-01T00:00:00.000Z",
    "principalId": "user-ada",
    "type": "message_part",
    "payload": {"chunk": {"type": "text-delta", "id": "t", "delta": "hi"}},
}


def test_the_whole_is_a_schema() -> None:
    Draft202012Validator.check_schema(document())


def test_no_document_needs_another() -> None:
    for path, told in written().items():
        pointers = {part.split('"')[0] for part in json.dumps(told).split('"$ref": "#/$defs/')[1:]}

        assert pointers <= set(told["$defs"]), path


def test_every_frame_event_and_chunk_has_a_name() -> None:
    frames = (*get_args(wire.ClientFrame), *get_args(wire.ServerFrame))
    found = names()

    assert {kind.__struct_config__.tag for kind in frames} <= set(found["frames"])
    assert {"run_started", "participant_left", "artifact_version_added"} <= set(found["events"])
    assert {"text-delta", "tool-output-denied", "data-*", "message-metadata"} <= set(
        found["chunks"]
    )
    assert {"NewThread", "NewEvents", "ProblemBody", "Page"} <= set(found["bodies"])


def test_an_unknown_name_is_no_document() -> None:
    with pytest.raises(KeyError):
        document("client.nothing")


FRAMES: list[tuple[bool, dict[str, Any]]] = [
    (True, {"type": "client.auth"}),
    (True, {"type": "client.auth", "token": None, "later": {"x": 1}}),
    (False, {"type": "client.auth", "token": 7}),
    (True, {"type": "client.subscribe", "threadId": "t1", "after": 0}),
    (True, {"type": "client.subscribe", "threadId": "t1", "after": "head", "ref": "r"}),
    (False, {"type": "client.subscribe", "threadId": "t1"}),
    (False, {"type": "client.subscribe", "threadId": "t1", "after": "tail"}),
    (False, {"type": "client.subscribe", "threadId": "t1", "after": 1.5}),
    (False, {"type": "client.subscribe", "threadId": "t1", "after": None}),
    (False, {"type": "client.subscribe", "after": 1}),
    (True, {"type": "client.unsubscribe", "threadId": "t1"}),
    (False, {"type": "client.unsubscribe", "threadId": ["t1"]}),
    (True, {"type": "client.subscribe_grants"}),
    (False, {"type": "client.subscribe_grants", "after": "head"}),
    (True, {"type": "client.ping", "ref": "p1"}),
    (True, {"type": "client.cursor", "threadId": "t1", "consumer": None, "seq": 1}),
    (False, {"type": "client.cursor", "threadId": "t1", "seq": None}),
    (False, {"type": "client.cursor", "threadId": "t1", "seq": -1}),
    (False, {"type": "client.ping", "ref": {}}),
    (False, {"type": "client.pong"}),
    (False, {"type": "server.pong"}),
    (False, {"type": 7}),
    (False, {}),
]


@pytest.mark.parametrize(("good", "frame"), FRAMES)
def test_a_frame_fits_its_schema_if_and_only_if_it_is_read(
    good: bool, frame: dict[str, Any]
) -> None:
    try:
        read_frame(json.dumps(frame))
        read = True
    except Problem:
        read = False

    assert (read, complaint("ClientFrame", frame) is None) == (good, good)


EVENTS: list[tuple[bool, dict[str, Any]]] = [
    (True, {"type": "message_part", "payload": {"chunk": {"type": "text-end", "id": "t"}}}),
    (True, {"type": "message_part", "payload": {"chunk": {"type": "new-kind"}}, "runId": None}),
    (True, {"type": "message_part", "payload": {"chunk": {"type": "data-x", "data": None}}}),
    (False, {"type": "message_part", "payload": {"chunk": {"type": "data-x"}}}),
    (False, {"type": "message_part", "payload": {"chunk": {"type": "text-end"}}}),
    (False, {"type": "message_part", "payload": {"chunk": {"type": "text-delta", "id": "t"}}}),
    (False, {"type": "message_part", "payload": {"chunk": {"type": ""}}}),
    (False, {"type": "message_part", "payload": {"chunk": []}}),
    (False, {"type": "message_part", "payload": None}),
    (False, {"type": "message_part"}),
    (True, {"type": "run_started", "runId": "r"}),
    (True, {"type": "run_started", "runId": "r", "payload": None, "key": "r/0"}),
    (True, {"type": "run_started", "runId": "r", "payload": {"trigger": {"throughSeq": 4}}}),
    (False, {"type": "run_started", "runId": "r", "payload": {"trigger": {"throughSeq": "4"}}}),
    (False, {"type": "run_started", "runId": "r", "payload": {"agent": {"name": "a"}}}),
    (False, {"type": "run_started"}),
    (False, {"type": "run_started", "runId": "a b"}),
    (False, {"type": "run_started", "runId": "r", "key": "é"}),
    (False, {"type": "run_started", "runId": "r", "payload": []}),
    (True, {"type": "run_finished", "runId": "r", "payload": {"status": "failed"}}),
    (False, {"type": "run_finished", "runId": "r", "payload": {"status": "done"}}),
    (False, {"type": "run_finished", "runId": "r"}),
    (
        False,
        {
            "type": "run_finished",
            "runId": "r",
            "payload": {"status": "failed", "reason": "x" * 2001},
        },
    ),
    (True, {"type": "run_interrupt_requested", "runId": "r", "payload": {"reason": None}}),
    (
        True,
        {
            "type": "tool_call_approval",
            "runId": "r",
            "payload": {"toolCallId": "c", "decision": "allow", "updatedInput": {}},
        },
    ),
    (False, {"type": "tool_call_approval", "runId": "r", "payload": {"decision": "allow"}}),
    (
        False,
        {
            "type": "tool_call_approval",
            "runId": "r",
            "payload": {"toolCallId": "c", "decision": "allow", "updatedInput": "x"},
        },
    ),
    (True, {"type": "tool_call_result", "runId": "r", "payload": {"toolCallId": "c", "output": 1}}),
    (False, {"type": "tool_call_result", "runId": "r", "payload": {"toolCallId": "\x01"}}),
    (True, {"type": "x.acme.thing", "payload": {"any": [1]}}),
    (False, {"type": "x.acme", "payload": {}}),
    (False, {"type": "thread_created", "payload": {}}),
    (False, {"type": "mine", "payload": {}}),
    (False, {"payload": {}}),
]


@pytest.mark.parametrize(("good", "event"), EVENTS)
def test_an_event_fits_its_schema_if_and_only_if_it_is_taken(
    good: bool, event: dict[str, Any]
) -> None:
    try:
        batch = decode_events(json.dumps({"events": [event]}).encode())
        taken = read_drafts(batch, None, LIMITS)[0].fault is None
    except Problem:
        taken = False

    assert (taken, complaint("NewEvent", event) is None) == (good, good)


BODIES: list[tuple[bool, type[wire.Struct], dict[str, Any]]] = [
    (True, wire.NewThread, {}),
    (True, wire.NewThread, {"title": None, "membersCanInvite": None, "more": 1}),
    (False, wire.NewThread, {"title": 7}),
    (False, wire.NewThread, {"title": "x" * 201}),
    (True, wire.ThreadChange, {"title": None, "access": "direct"}),
    (False, wire.ThreadChange, {"access": "open"}),
    (True, wire.NewPrincipal, {"principalId": "a", "kind": "bot"}),
    (False, wire.NewPrincipal, {"principalId": "a", "kind": "cat"}),
    (False, wire.NewPrincipal, {"principalId": "a", "kind": None}),
    (False, wire.NewPrincipal, {"principalId": "a", "kind": "bot", "displayName": "x" * 101}),
    (True, wire.NewToken, {"graceSeconds": 86_400, "revokeOthers": True}),
    (False, wire.NewToken, {"graceSeconds": 86_401}),
    (False, wire.NewToken, {"graceSeconds": -1}),
    (True, wire.NewGrant, {"target": {"type": "system"}, "principalId": "a", "role": "owner"}),
    (False, wire.NewGrant, {"target": {"type": "system"}, "principalId": "a", "role": "boss"}),
    (False, wire.NewGrant, {"target": {}, "principalId": "a", "role": "owner"}),
    (False, wire.NewInvite, {}),
    (True, wire.NewSubthread, {"origin": {"runId": "r", "toolCallId": "c"}}),
    (False, wire.NewSubthread, {"origin": {"runId": "r"}}),
]


@pytest.mark.parametrize(("good", "kind", "body"), BODIES)
def test_a_body_fits_its_schema_if_and_only_if_it_is_decoded(
    good: bool, kind: type[wire.Struct], body: dict[str, Any]
) -> None:
    try:
        decode(json.dumps(body).encode(), kind)
        decoded = True
    except Problem:
        decoded = False

    assert (decoded, complaint(kind.__name__, body) is None) == (good, good)


@pytest.mark.parametrize(
    "frame",
    [
        wire.ServerSubscribed(thread_id="t1", after=1, last_seq=2),
        wire.ServerCaughtUp(stream="grants", grant_seq=3),
        wire.ServerUnsubscribed(thread_id="t1", reason="revoked"),
        wire.ServerGrantsSnapshot(grant_seq=1, grants=[GRANT], more=False, ref="g"),
        wire.ServerGrant(grant_seq=1, action="revoked", grant=GRANT),
        wire.ServerPong(),
        wire.ServerHeartbeat(time="2026-12-01T00:00:00.000Z"),
        wire.ServerError(code="future_cursor", detail="", last_seq=4),
        wire.ServerClosing(reason="restart", reconnect_after_ms=600),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_the_server_writes_fits(frame: wire.ServerFrame) -> None:
    assert complaint("ServerFrame", json.loads(write_frame(frame))) is None


@pytest.mark.parametrize(
    "change",
    [
        {"seq": "1"},
        {"seq": None},
        {"payload": []},
        {"payload": {}},
        {"payload": {"chunk": {"type": "file"}}},
        {"threadId": "Not A Thread"},
        {"principalId": ""},
        {"role": "boss"},
        {"bareLeft": None},
    ],
    ids=str,
)
def test_an_envelope_that_no_server_sends_does_not_fit(change: dict[str, Any]) -> None:
    assert complaint("Envelope", ENVELOPE) is None
    assert complaint("Envelope", ENVELOPE | change) is not None


def test_a_reader_may_meet_events_of_a_later_version() -> None:
    later = {"type": "mood_changed", "payload": {"mood": "fine"}, "feeling": 1}

    assert complaint("Envelope", ENVELOPE | later) is None
