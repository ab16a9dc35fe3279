"""Tail and frames: what many readers share, cut to what one frame holds."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.server.socket.frames import Line, events_frame, fitting, snapshot_frames
from scuba.server.socket.tail import EVENTS, SIZE_BYTES, Tail, Tails, line


def event(seq: int, author: str = "bot", key: str | None = "k", size: int = 2) -> wire.Envelope:
    payload = msgspec.Raw(msgspec.json.encode({"t": "x" * size}))
    return wire.Envelope(
        id=f"evt_{seq}", thread_id="thr_1", seq=seq, ts="", principal_id=author, type="x.a.b",
        payload=payload, key=key,
    )  # fmt: skip


def test_a_key_is_shown_to_its_author_only() -> None:
    """Chapter 5.1."""
    tail = Tail("thr_1")
    tail.add([event(1), event(2, key=None)])

    for lines in (tail.after(0, "bot", 9), [line(event(1), "bot")]):
        assert lines is not None
        assert json.loads(lines[0].text)["key"] == "k"
    for lines in (tail.after(0, "ada", 9), [line(event(1), "ada")]):
        assert lines is not None
        assert "key" not in json.loads(lines[0].text)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=200), st.integers(0, 1200))
def test_a_tail_tells_all_after_a_seq_or_that_it_cannot(
    steps: list[tuple[int, bool]], after: int
) -> None:
    tail, log = Tail("thr_1"), list[int]()
    for count, hole in steps:
        start = (log[-1] if log else 0) + (2 if hole else 1)
        new = list(range(start, start + count))
        tail.add([event(seq) for seq in new])
        log += new
    newest = log[-1] if log else 0

    lines = tail.after(after, "bot", 10_000)

    if lines is not None:
        assert [seq for seq, _ in lines] == list(range(after + 1, newest + 1))
        assert len(lines) <= EVENTS


def test_a_tail_is_bounded_by_bytes() -> None:
    tail = Tail("thr_1")
    for seq in range(1, 40):
        tail.add([event(seq, size=100_000)])

    kept = next(n for n in range(40) if tail.after(n, "bot", 99) is not None)
    assert (39 - kept) * 200_000 <= SIZE_BYTES
    assert tail.after(39, "bot", 99) == []
    assert 0 < tail.size_bytes <= SIZE_BYTES


def test_readers_at_one_place_share_one_frame() -> None:
    """Chapter 8.8; but a key is for its author only (5.1)."""
    tail = Tail("thr_1")
    tail.add([event(1), event(2)])

    ada, eve, author = (tail.parcel(0, who, None, 9_999) for who in ("ada", "eve", "bot"))
    assert ada is eve
    assert ada is not None
    assert author is not None
    assert (ada.seq, ada.count) == (author.seq, author.count) == (2, 2)
    assert b'"key"' not in ada.text
    assert b'"key":"k"' in author.text
    assert ada.frame.endswith(ada.text)


def test_a_frame_ends_at_the_goal_and_is_made_anew_after_each_event() -> None:
    tail = Tail("thr_1")
    tail.add([event(1), event(2)])
    shorter, longer = (tail.parcel(0, "ada", goal, 9_999) for goal in (1, None))
    tail.add([event(3)])
    newest = tail.parcel(0, "ada", None, 9_999)

    assert [each and each.seq for each in (shorter, longer, newest)] == [1, 2, 3]
    assert Tail("thr_2").parcel(0, "ada", None, 9_999) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5_000)), max_size=60))
def test_all_tails_together_are_bounded(steps: list[tuple[int, int]]) -> None:
    """Chapter 8.8: many threads cost no more memory than said."""
    tails, each = Tails(most_bytes=20_000), [Tail(f"thr_{n}") for n in range(5)]
    for seq, (which, size) in enumerate(steps, 1):
        tails.add(each[which], [event(seq, size=size)])

        assert tails.size_bytes == sum(tail.size_bytes for tail in each)
        assert tails.size_bytes <= 20_000 or sum(tail.size_bytes > 0 for tail in each) == 1
        assert each[which].parcel(seq - 1, "ada", None, 9_999) is not None  # the newest stays
    for tail in each:
        tails.drop(tail)
    assert tails.size_bytes == 0


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=300), st.integers(1_100, 20_000))
def test_a_frame_holds_what_fits_and_at_least_one(sizes: list[int], frame_bytes: int) -> None:
    lines = [Line(n, b'"' + b"x" * size + b'"') for n, size in enumerate(sizes)]

    taken = fitting(lines, frame_bytes)

    assert taken == lines[: len(taken)]
    assert 1 <= len(taken) <= 200
    if len(taken) > 1:
        assert len(events_frame("thr_1", taken)) <= frame_bytes


@given(st.integers(0, 60), st.integers(1_200, 6_000))
def test_a_snapshot_is_split_and_its_last_frame_says_so(count: int, frame_bytes: int) -> None:
    """Chapter 9.1."""
    grants = [
        wire.Grant(target=wire.Target(type="thread", thread_id=f"thr_{n}"), role="member")
        for n in range(count)
    ]

    texts = list(snapshot_frames(7, grants, frame_bytes, "g1"))
    frames = [msgspec.json.decode(text, type=wire.ServerGrantsSnapshot) for text in texts]

    assert [frame.more for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert {(frame.grant_seq, frame.ref) for frame in frames} == {(7, "g1")}
    assert [grant for frame in frames for grant in frame.grants] == grants
    assert all(len(text) <= frame_bytes for text in texts)
