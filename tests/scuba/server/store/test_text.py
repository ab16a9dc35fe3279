"""Payload bytes: what any store can keep and any reader read, and nothing else (1.2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.text import PAYLOAD_NESTING, read_payload

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-wire.MAX_INTEGER, wire.MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans())
def test_what_is_good_is_read_as_it_is(payload: dict[str, Any], ascii_only: bool) -> None:
    assert read_payload(json.dumps(payload, ensure_ascii=ascii_only).encode())[0] == payload


@given(
    st.dictionaries(TEXTS, VALUES, max_size=3), st.sampled_from(["\0", "\ud800", "\udfff"]), TEXTS
)
def test_what_no_store_can_keep_is_refused_wherever_it_stands(
    payload: dict[str, Any], bad: str, around: str
) -> None:
    text = around + bad + around
    for broken in (payload | {"a": {"b": [text]}}, payload | {text: 1}):
        with pytest.raises(Problem) as caught:
            read_payload(json.dumps(broken).encode())
        assert caught.value.code == "invalid_text"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"{'a':1}", "invalid_json"),
        (b'{"a":NaN}', "invalid_json"),
        (b'{"a":1e999}', "invalid_json"),
        (b'{"a":"\x01"}', "invalid_json"),
        (b'{"a":9007199254740992}', "invalid_json"),
        (b'{"a":-9007199254740992}', "invalid_json"),
        (b'{"a":' + b"9" * 5_000 + b"}", "invalid_json"),
        (b"[]", "invalid_event"),
        (b'"text"', "invalid_event"),
        (b"7", "invalid_event"),
        (b'{"a":"\xff"}', "invalid_text"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_text"),
        (b'{"a":"\\ud83d \\ude00"}', "invalid_text"),
        (b'{"a":' + b"[" * 100_000, "invalid_json"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[:24]) + str(len(value)),
)
def test_bad_bytes_are_told_apart(raw: bytes, code: str) -> None:
    with pytest.raises(Problem) as caught:
        read_payload(raw)

    assert (caught.value.status, caught.value.code) == (400, code)


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"a":"\\u0000 \\ud800"}',
        b'{"a":"9999999999999999999999"}',
        b'{"a":' + b'"[[[{{{"' + b"}",
        b'{"a":"\\ud83d\\ude00"}',
        b'{"a":9007199254740991,"b":1e300,"c":12345678901234567890.5}',
        b'{"a":"' + b"[" * 100 + b'\\""}',
    ],
    ids=str,
)
def test_what_only_looks_bad_is_good(raw: bytes) -> None:
    assert "a" in read_payload(raw)[0]


def test_nesting_leaves_room_for_the_frame_it_goes_out_in() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)

    read_payload(nested(PAYLOAD_NESTING))
    with pytest.raises(Problem, match="nested"):
        read_payload(nested(PAYLOAD_NESTING + 1))
    wide = json.dumps({"a": [[{}]] * 100}).encode()
    assert len(read_payload(wide)[0]["a"]) == 100
