"""The floor: what counts as settled when a bot starts on a thread."""

import pytest

from actors.backlog import floor, has_news
from actors.messages import ThreadGranted
from actors.ports import Position


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (None, 10),
        (Position("e-1", 30), 30),
        (Position("e-1", 4), 10),  # from before the latest join
        (Position("e-0", 30), 10),  # of another log
    ],
)
def test_the_floor_is_the_checkpoint_unless_it_is_of_another_life(
    checkpoint: Position | None, expected: int
) -> None:
    granted = ThreadGranted(thread_id="t", joined_seq=10)

    assert floor(granted, checkpoint, "e-1") == expected


@pytest.mark.parametrize(("last_seq", "news"), [(None, True), (11, True), (10, False), (3, False)])
def test_a_quiet_thread_is_not_read(last_seq: int | None, news: bool) -> None:
    granted = ThreadGranted(thread_id="t", joined_seq=1, last_seq=last_seq)

    assert has_news(granted, 10) is news
