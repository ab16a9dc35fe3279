"""Reading fast and reading slowly come to the same: nothing slips through because it is quick."""

import hashlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scuba import wire
from scuba.errors import Problem
from scuba.server import decode as decoding
from scuba.server import strictness
from scuba.server.decode import decode_events
from scuba.server.store.drafts import content_digest, read_drafts
from scuba.server.store.text import read_payload

GOOD = [
    b'{"a":{"b":[1,2.5,"x\\":y",null,true]},"c":"\xc3\xa9"}',
    b'{"a":[{"b":1},{"b":2}],"\\":":"\\":"}',
    b'{"events":[{"type":"x.a.b","runId":"r","payload":{"k":["v"]},"key":"k"}],"logEpoch":"e"}',
    b'{"events":[{"type":"x.a.b","payload":{}},{"type":"x.a.b","payload":null}]}',
    b'{"type":"x.a.b","payload":{"a":{}}}',
]
PIECES = [
    *b'{ } [ ] " : , "a" "b": 1 -0 1e5 01 1. .5 -'.split(),
    *rb"\ \" \u0041 \u0022 \u003a \ud83d\ude00 \ud83d \u0000 \/ \x".split(),
    *b"\x00 \x1f \x7f \xff \xed\xa0\x80 \xc3\xa9 \xc0\x80 \xef\xbb\xbf".split(),
    *b'true null NaN 1e999 9007199254740992 "a":1, "payload":{}, "type":"y",'.split(),
    *(b" ", b"\n", b"\t", b" :", b"[" * 40),
]
EDITS = st.lists(
    st.tuples(st.integers(0, 120), st.integers(0, 3), st.sampled_from(PIECES)), max_size=4
)


def edited(raw: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for at, gone, piece in edits:
        at %= len(raw) + 1
        raw = raw[:at] + piece + raw[at + gone :]
    return raw


def slowly(raw: bytes) -> dict[str, Any] | None:
    try:
        return strictness._read_slowly(raw, wire.MAX_NESTING)
    except Problem:
        return None


@given(st.sampled_from(GOOD), EDITS)
@example(b'{"a":1,"a" :2}', [])
@example(b'{"a":1,"a":2,"x":"\\"\\u003a"}', [])
@example(b'{"a":1,"a":2,"x":"\\u0022:"}', [])
@example(b'{"a":{"b":1,"b":1},"x":"\\":"}', [])
def test_what_is_read_fast_is_what_is_read_slowly(
    raw: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    raw = edited(raw, edits)
    if strictness.is_shallow(raw, wire.MAX_NESTING) and strictness.is_even(raw):
        fast = strictness._read_plain(raw)
        if fast is not None:
            assert repr(fast[0]) == repr(slowly(raw))


@given(st.sampled_from(GOOD), EDITS)
@example(b'{"events":[{"type":"x.a.b","payload":{}}],"events" :[]}', [])
@example(b'{"events":[{"type":"x.a.b","type":"x.a.c"}]}', [])
@example(b'{"events":[{"type":"x.a.b","key":"a\\":b"}]}', [])
@example(b'{"events":[{"type":"x.a.b","later":[[]],"payload":{}}]}', [])
def test_a_batch_that_is_taken_fast_is_good_but_for_its_payloads(
    raw: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    raw = edited(raw, edits)
    batch = decoding._plain_batch(raw)
    if batch is None:
        return
    sound = all(draft.fault is None for draft in read_drafts(batch, None, wire.Limits()))
    whole = slowly(raw)

    assert whole is not None or not sound
    if whole is not None:
        assert [event["type"] for event in whole["events"]] == [e.type for e in batch.events]
        assert not set(whole) - {"events", "logEpoch", "expectedSeq"}


@pytest.mark.parametrize("payload", [b'{"a":1,"a":2}', b'{"a":"\xff"}'])
def test_a_bad_payload_is_told_by_its_event(payload: bytes) -> None:
    batch = decode_events(b'{"events":[{"type":"x.a.b","payload":' + payload + b"}]}")
    fault = read_drafts(batch, None, wire.Limits())[0].fault

    assert fault is not None
    assert fault.code in ("invalid_json", "invalid_text")
    assert fault.fields == {"index": 0}


def test_an_ordinary_batch_is_taken_fast() -> None:
    part = {
        "type": "message_part",
        "runId": "r",
        "payload": {"chunk": {"type": "abort"}},
        "key": "k",
    }
    batch = {"events": [part] * 100, "logEpoch": "e", "expectedSeq": 3}

    assert decoding._plain_batch(json.dumps(batch, separators=(",", ":")).encode()) is not None


@given(st.dictionaries(st.text(max_size=5), st.integers(-9, 9) | st.text(max_size=5), max_size=4))
def test_the_digest_is_that_of_the_whole_event_with_sorted_names(payload: dict[str, Any]) -> None:
    """What is stored since the first version must be found again (6.2)."""
    if "\\u0000" in json.dumps(payload):
        return
    text = read_payload(json.dumps(payload).encode())[1]
    for run_id in ("r", None):
        whole = msgspec.json.encode(("x.a.b", run_id, payload), order="sorted")

        assert content_digest("x.a.b", run_id, text) == hashlib.sha256(whole).digest()
