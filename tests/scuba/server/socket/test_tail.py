"""Tail and frames: what many readers share, cut to what one frame holds."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.server.socket.frames import events_frame, fitting, snapshot_frames
from scuba.server.socket.tail import EVENTS, SIZE_BYTES, Line, Tail, line


def event(seq: int, author: str = "bot", key: str | None = "k", size: int = 2) -> wire.Envelope:
    payload = msgspec.Raw(msgspec.json.encode({"t": "x" * size}))
    return wire.Envelope(
        id=f"evt_{seq}", thread_id="thr_1", seq=seq, ts="", principal_id=author, type="x.a.b",
        payload=payload, key=key,
    )  # fmt: skip


def test_a_key_is_shown_to_its_author_only() -> None:
    """Chapter 5.1."""
    tail = Tail()
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
    tail, log = Tail(), list[int]()
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
    tail = Tail()
    for seq in range(1, 20):
        tail.add([event(seq, size=60_000)])

    kept = next(n for n in range(20) if tail.after(n, "bot", 99) is not None)
    assert (19 - kept) * 60_000 <= SIZE_BYTES
    assert tail.after(19, "bot", 99) == []


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
