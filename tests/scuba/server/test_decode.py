"""Bytes from outside: every fault is one Problem that says where and what."""

import contextlib
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scuba import wire
from scuba.errors import Problem
from scuba.server.decode import decode, decode_events, decode_query
from scuba.server.http.events import EventsQuery
from scuba.server.http.grants import GrantsQuery
from scuba.server.strictness import strict

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def refusal(raw: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        strict(raw)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("raw", "code", "says"),
    [
        (b"", "invalid_json", "character 0"),
        (b'{"a":1,}', "invalid_json", "character 7"),
        (b"[1]", "invalid_json", "not an object"),
        (b'{"a":1,"a":2}', "invalid_json", "'a' is twice"),
        (b'{"x":[{"b":1,"b":1}]}', "invalid_json", "'b' is twice"),
        (b'{"a":9007199254740992}', "invalid_json", "9007199254740992"),
        (b'{"a":' + b"9" * 5000 + b"}", "invalid_json", "beyond"),
        (b'{"a":1e999}', "invalid_json", "too large"),
        (b'{"a":NaN}', "invalid_json", "NaN"),
        (b'{"a":"\xff"}', "invalid_text", "byte 6"),
        (b'{"a":"\xed\xa0\x80"}', "invalid_text", "byte 6"),
        (b'{"a":["x","\\u0000"]}', "invalid_text", "$.a[1]"),
        (b'{"a":{"b":"\\ud83d"}}', "invalid_text", "$.a.b"),
        (b'{"\\uDC00":1}', "invalid_text", "a name in $"),
        ('{"a":1}'.encode("utf-16"), "invalid_text", "byte"),
    ],
)
def test_a_fault_says_where_and_what(raw: bytes, code: str, says: str) -> None:
    error = refusal(raw)

    assert error.code == code
    assert says in error.detail


def test_a_whole_surrogate_pair_is_text() -> None:
    assert strict(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("brackets", [b"[]", b'{"a":}'])
def test_nesting_is_refused_before_anything_recursive_sees_it(brackets: bytes) -> None:
    """Field case 9.6."""
    opening, closing = brackets[:-1], brackets[-1:]
    deep = b'{"x":' + opening * 100_000 + b"1" + closing * 100_000 + b"}"

    assert "deeper than 64" in refusal(deep).detail


def test_nesting_of_64_is_taken_and_brackets_in_text_do_not_count() -> None:
    assert strict(b'{"x":' + b"[" * 63 + b"]" * 63 + b"}")
    assert strict(json.dumps({"x": ['\\"[{' * 200]}).encode())
    assert "deeper" in refusal(b'{"x":' + b"[" * 64 + b"]" * 64 + b"}").detail


def test_an_unclosed_string_full_of_quotes_costs_no_quadratic_time() -> None:
    assert refusal(b'{"x":"' + b'\\"' * 200_000 + b"[{" * 40).code == "invalid_json"


def test_a_doubled_name_among_many_is_found_in_one_pass() -> None:
    names = ",".join(f'"n{number}":0' for number in range(60_000))
    began = time.process_time()

    assert "'n59999' is twice" in refusal(f'{{{names},"n59999":0}}'.encode()).detail
    assert time.process_time() - began < 5


def test_telling_where_a_bad_text_is_costs_no_more_than_the_document() -> None:
    many = ",".join('""' for _ in range(8_000))
    document = f'{{"bad":"\\u0000","{"n" * 32_000}":[{many}]}}'
    tracemalloc.start()
    try:
        told = refusal(document.encode()).detail
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert told == "U+0000 in $.bad"
    assert peak_bytes < 20_000_000


def test_a_long_way_to_a_bad_text_is_told_short() -> None:
    told = refusal(f'{{"{"n" * 32_000}":["\\ud800"]}}'.encode()).detail

    assert told.startswith("lone surrogate in $.nnn")
    assert len(told) < 300


@given(st.binary(max_size=60))
@example(b'{"a":"\\')
@example(b"{" * 70)
@example(b'"' + b"[" * 70 + b"\\")
def test_no_bytes_do_anything_else_than_decode_or_be_refused(raw: bytes) -> None:
    with contextlib.suppress(Problem):
        strict(raw)


@given(st.dictionaries(st.text(max_size=3), JSON))
def test_what_json_can_say_comes_through_unchanged(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    if "\\u0000" not in text:
        assert strict(text.encode()) == document


def test_null_is_absent_unless_it_clears() -> None:
    assert decode(b'{"membersCanInvite":null,"title":null}', wire.NewThread) == wire.NewThread()
    change = decode(b'{"title":null,"membersCanInvite":null}', wire.ThreadChange)
    assert change == wire.ThreadChange(title=None)


def test_a_wrong_type_names_its_path_and_unknown_fields_are_ignored() -> None:
    with pytest.raises(Problem, match=r"\$\.title") as caught:
        decode(b'{"title":7}', wire.NewThread)
    assert caught.value.code == "invalid_json"
    assert decode(b'{"title":"t","later":[1]}', wire.NewThread) == wire.NewThread(title="t")


def test_payloads_stay_byte_for_byte() -> None:
    batch = decode_events(b'{"events":[{"type":"x.a.b","payload":{ "n": 1.50 }}]}')

    assert bytes(batch.events[0].payload) == b'{ "n": 1.50 }'


def test_one_event_stands_for_a_batch() -> None:
    batch = decode_events(b'{"type":"x.a.b","key":"k","payload":null,"expectedSeq":4}')

    [event] = batch.events
    assert (event.type, event.key, bytes(event.payload)) == ("x.a.b", "k", b"{}")
    assert batch.expected_seq == 4


@pytest.mark.parametrize(
    "event", [b'{"type":7}', b"{}", b"3", b'{"type":"a","key":[]}', b'{"type":"a\\u0000"}']
)
def test_a_bad_event_is_told_by_its_index(event: bytes) -> None:
    with pytest.raises(Problem) as caught:
        decode_events(b'{"events":[{"type":"ok"},' + event + b"]}")

    assert caught.value.fields == {"index": 1}


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([("after", "x")], "after"),
        ([("after", "-1")], "after"),
        ([("limit", "1001")], "limit"),
        ([("limit", "0")], "limit"),
        ([("afer", "1")], "afer"),
        ([("after", "1"), ("after", "2")], "after is given twice"),
        ([("alignRuns", "maybe")], "alignRuns"),
    ],
)
def test_a_query_mistake_names_the_parameter(pairs: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(Problem, match=says) as caught:
        decode_query(pairs, EventsQuery)
    assert caught.value.code == "invalid_query"


def test_a_query_is_read() -> None:
    query = decode_query([("after", "0"), ("tail", "5"), ("alignRuns", "true")], EventsQuery)

    assert query == EventsQuery(after=0, tail=5, align_runs=True)
    assert decode_query([("all", "true")], GrantsQuery) == GrantsQuery(all=True)
