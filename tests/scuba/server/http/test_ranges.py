"""Conditions, ranges and names of a content: pure rules of RFC 9110, 9530 and 6266."""

import base64
import hashlib
import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.errors import Problem
from scuba.server.http.ranges import (
    as_digest,
    attachment,
    expected_digest,
    expected_version,
    matches,
    wanted_span,
)

SUM = hashlib.sha256(b"x")
TOLD = f"sha-256=:{base64.b64encode(SUM.digest()).decode()}:"


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-0", range(1)),
        ("bytes=2-4", range(2, 5)),
        ("Bytes=2-99", range(2, 10)),
        ("bytes=9-", range(9, 10)),
        ("bytes=-3", range(7, 10)),
        ("bytes=-99", range(10)),
        (None, None),
        ("bytes=-", None),
        ("bytes=4-2", None),
        ("bytes=0-1,3-4", None),
        ("lines=1-2", None),
        ("bytes=a-b", None),
        ("bytes=0-" + "9" * 30, None),
    ],
)
def test_one_range_is_served_and_what_is_none_is_passed_over(
    header: str | None, span: range | None
) -> None:
    assert wanted_span(header, 10) == span


@pytest.mark.parametrize(
    ("header", "size"), [("bytes=10-", 10), ("bytes=99-100", 10), ("bytes=-0", 10), ("bytes=0-", 0)]
)
def test_a_range_outside_is_told_the_size(header: str, size: int) -> None:
    with pytest.raises(Problem) as caught:
        wanted_span(header, size)

    assert (caught.value.status, caught.value.fields) == (416, {"size": size})


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_a_range_lies_within_the_content(size: int, first: int, last: int) -> None:
    try:
        span = wanted_span(f"bytes={first}-{last}", size)
    except Problem:
        assert first >= size
        return

    assert span is None or (span.start == first and len(span) > 0 and span.stop <= size)


def test_an_etag_is_found_among_others() -> None:
    assert matches('"a", W/"b"', '"b"')
    assert matches("*", '"b"')
    assert not matches('"a"', '"b"')
    assert not matches("", '"b"')


def test_if_match_is_a_number_in_quotes() -> None:
    assert expected_version('"3"') == 3
    assert expected_version(None) is None
    for bad in ("3", '"x"', "*", 'W/"3"', '"1", "2"', ""):
        with pytest.raises(Problem, match="If-Match"):
            expected_version(bad)


def test_a_digest_is_taken_from_among_others_and_never_passed_over() -> None:
    assert expected_digest(None) is None
    assert expected_digest(TOLD) == SUM.digest()
    assert expected_digest(f"sha-512=:AAAA:, {TOLD}") == SUM.digest()
    assert as_digest(f"sha256:{SUM.hexdigest()}") == TOLD
    for bad in ("", "sha-256=abc", "sha-256=:AAAA:", "sha-512=:AAAA:", SUM.hexdigest()):
        with pytest.raises(Problem) as caught:
            expected_digest(bad)
        assert (caught.value.status, caught.value.code) == (422, "digest_mismatch")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
def test_whatever_a_name_holds_the_header_is_one_line_and_says_it(name: str) -> None:
    """Field case 13.2, and RFC 6266 with RFC 5987."""
    header = attachment(name)
    found = re.fullmatch(r"attachment; filename=\"([ -~]*)\"; filename\*=UTF-8''(.*)", header)

    assert found is not None
    assert header.isascii()
    assert not set(found[1]) & set('"\\%')
    assert re.fullmatch(r"[A-Za-z0-9._~%-]*", found[2])
    assert unquote(found[2]) == name
