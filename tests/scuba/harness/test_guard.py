"""The guard's ears: which sessions had not ended when the life-line broke."""

from hypothesis import given
from hypothesis import strategies as st

from scuba.harness.guard import left_open

TAGS = st.sampled_from(["a1", "b2", "c3"])


def test_what_began_and_did_not_end_is_left_open() -> None:
    assert left_open([b"+a1\n", b"+b2\n", b"-a1\n"]) == {"b2"}


def test_nothing_is_left_of_a_daemon_that_ended_its_sessions() -> None:
    assert left_open([b"+a1\n", b"\n", b"-a1\n"]) == set()


def test_half_a_line_names_no_session() -> None:
    """It is written before the session's first process starts, so there is none."""
    assert left_open([b"+a1\n", b"+b"]) == {"a1"}


@given(st.lists(st.tuples(st.booleans(), TAGS)))
def test_the_last_word_about_a_session_counts(words: list[tuple[bool, str]]) -> None:
    lines = [b"%c%s\n" % (b"+" if begins else b"-", tag.encode()) for begins, tag in words]

    last = {tag: begins for begins, tag in words}

    assert left_open(lines) == {tag for tag, begins in last.items() if begins}
