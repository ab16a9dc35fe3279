"""The lines of the CLI: whatever comes, it becomes a frame."""

import json

from hypothesis import given
from hypothesis import strategies as st

from scuba.harness.claude.frames import (
    Assistant,
    ControlRequest,
    Other,
    Result,
    StreamEvent,
    System,
    decode,
)
from scuba.harness.claude.values import clean, every_text, load, sound

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary())
def test_no_line_raises(line: bytes) -> None:
    """Field case 9.7."""
    decode(line)


@given(
    st.sampled_from(["assistant", "user", "result", "system", "stream_event", "control_request"]),
    st.dictionaries(st.sampled_from(["message", "event", "request", "subtype", "errors"]), JSON),
)
def test_a_known_type_of_unexpected_shape_raises_nothing(
    type_: str, fields: dict[str, object]
) -> None:
    """Field case 9.7."""
    decode(json.dumps({"type": type_, **fields}).encode())


def test_what_is_not_known_is_kept_whole() -> None:
    """Field case 9.7."""
    frame = decode(b'{"type":"brand_new_type","x":1}')

    assert isinstance(frame, Other)
    assert frame.kind == "brand_new_type"
    assert frame.data == {"type": "brand_new_type", "x": 1}
    assert decode(b"not json") == Other(data=None, line=b"not json")
    assert decode(b"[1]") == Other(data=None, line=b"[1]")
    assert isinstance(decode(b'{"type":"result","errors":7}'), Other)


def test_missing_optional_fields_are_no_fault() -> None:
    """Field case 9.7."""
    assert isinstance(decode(b'{"type":"result"}'), Result)
    assert isinstance(decode(b'{"type":"system","subtype":"brand_new"}'), System)
    assert isinstance(
        decode(b'{"type":"assistant","message":{"content":[{"type":"new"}]}}'), Assistant
    )


def test_half_an_emoji_becomes_a_replacement_character() -> None:
    """Field case 9.1: replaced; a whole pair stays; the frame is still the one it is."""
    line = (
        rb'{"type":"stream_event","event":{"type":"content_block_delta",'
        rb'"delta":{"type":"text_delta","text":"a\ud83d b\ud83d\ude00"}}}'
    )

    frame = decode(line)

    assert isinstance(frame, StreamEvent)
    assert frame.event.delta is not None
    assert frame.event.delta.text == "a\ufffd b\U0001f600"


def test_a_question_with_half_an_emoji_is_still_a_question() -> None:
    """Field case 9.1: or an approval would hang."""
    line = (
        rb'{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool",'
        rb'"tool_name":"Bash","tool_use_id":"t","input":{"\udc00":"\ud83d"}}}'
    )

    frame = decode(line)

    assert isinstance(frame, ControlRequest)
    assert frame.tool_call_id == "t"
    assert load(line) is not None


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    """Field case 9.2: reported as U+FFFD, not raised."""
    frame = decode(b'{"type":"assistant","message":{"content":"a\xff\xe2\x82"}}')

    assert isinstance(frame, Assistant)
    assert frame.message.content == "a\ufffd\ufffd"


def test_raw_control_characters_inside_a_string_are_read() -> None:
    """Field case 9.4."""
    frame = decode(b'{"type":"assistant","message":{"content":"a\x00\x1b\rb"}}')

    assert isinstance(frame, Assistant)
    assert frame.message.content == "a\x00\x1b\rb"


def test_deep_nesting_is_no_crash() -> None:
    assert isinstance(decode(b'{"type":' + b"[" * 200_000), Other)
    nested = b'{"type":"user","message":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001
    assert isinstance(decode(nested), Other)


@given(JSON)
def test_cleaned_json_can_stand_on_the_wire(value: object) -> None:
    """Field cases 9.1 and 9.4."""
    told = json.dumps(every_text(clean, value), ensure_ascii=False)

    assert "\0" not in told
    assert "\\u0000" not in told.replace("\\\\", "")
    told.encode()


@given(st.text(st.characters(exclude_categories=[])))
def test_sound_text_can_be_encoded_and_keeps_its_length(value: str) -> None:
    assert len(sound(value)) == len(value)
    sound(value).encode()
