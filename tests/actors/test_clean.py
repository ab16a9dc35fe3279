"""What leaves is clean, within its limits, and the same when nothing was wrong with it."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.clean import MAX_DEPTH, clean_text, fit, fit_text, pieces, plain

ANY_TEXT = st.text(st.characters(exclude_categories=[]))
GOOD_TEXT = st.text(st.characters(exclude_categories=["Cs"], min_codepoint=32) | st.just("\n"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(ANY_TEXT)
def test_clean_text_can_be_stored_and_is_clean_for_good(text: str) -> None:
    """Field cases 9.1 and 9.4."""
    clean = clean_text(text)

    clean.encode()
    assert not set(clean) & set(map(chr, range(32))) - set("\t\n\r")
    assert clean_text(clean) == clean


@given(GOOD_TEXT)
def test_good_text_is_left_alone(text: str) -> None:
    assert clean_text(text) == text
    assert fit(text, 10_000) == text


@given(GOOD_TEXT, st.integers(4, 60))
def test_pieces_are_small_and_make_the_whole(text: str, limit_bytes: int) -> None:
    parts = pieces(text, limit_bytes)

    assert "".join(parts) == text
    assert all(len(msgspec.json.encode(part)) - 2 <= limit_bytes for part in parts)


@given(VALUES, st.integers(400, 900), st.integers(1, 30), st.integers(1, MAX_DEPTH + 20))
def test_any_value_fits(value: object, limit_bytes: int, times: int, deep: int) -> None:
    """Field cases 9.5 and 9.6: whatever a tool returns."""
    for _ in range(deep):
        value = [value]
    value = [value] * times

    fitting = fit(value, limit_bytes)

    assert len(msgspec.json.encode(fitting)) <= limit_bytes
    assert depth(fitting) <= MAX_DEPTH


@given(ANY_TEXT.map(lambda text: text * 200), st.integers(400, 900))
def test_any_text_fits(text: str, limit_bytes: int) -> None:
    fitting = fit_text(text, limit_bytes)

    assert len(msgspec.json.encode(fitting)) <= limit_bytes
    assert len(text) <= limit_bytes or "[shortened: " in fitting


def test_plain_is_what_a_person_reads() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert plain("text") == "text"
    assert plain(blocks) == "a\nb"
    assert plain([*blocks, {"type": "image"}]).startswith('[{"type": "text"')
    assert plain({"code": 1}) == '{"code": 1}'
    assert plain(None) == ""


def test_an_encoded_file_is_only_named_and_a_long_line_is_cut() -> None:
    """Field case 9.5: half an image is nothing, half a line is something."""
    assert fit_text("iVBORw0KGgo" * 1_000, 2_000) == "[shortened: 11,000 bytes in all]"
    assert fit_text("x" * 11_000, 2_000).startswith("x" * 1_500)
