"""FrameQueue: order and everything, whoever is slow."""

import tempfile
from unittest.mock import patch

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

import scuba.harness.claude.queue as module
from scuba.harness.claude.frames import Exited, Frame, Lifecycle
from scuba.harness.claude.queue import BATCH_FRAMES, FrameQueue
from tests.kit.claude_frames import life, line

LAST = Exited(returncode=0, stderr=[], asked=True)


def put(queue: FrameQueue, number: int) -> None:
    name = str(number)
    queue.put(life(name, "queued"), line("command_lifecycle", command_uuid=name, state="queued"))


def numbers(frames: list[Frame]) -> list[int]:
    return [int(frame.command_uuid) for frame in frames if isinstance(frame, Lifecycle)]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 2_000), st.integers(1, 9))
def test_all_come_out_once_in_order_whether_in_memory_or_in_the_file(
    bursts: list[int], limit_bytes: int, batch_frames: int
) -> None:
    """A burst is put, then one batch is taken; in the end all the rest."""

    async def main() -> None:
        queue = FrameQueue(limit_bytes)
        got: list[int] = []
        made = 0
        for burst in bursts:
            for _ in range(burst):
                put(queue, made)
                made += 1
            if queue.waiting:
                got += numbers(await queue.get())
        queue.close(LAST)
        batch: list[Frame] = []
        while LAST not in batch:
            batch = await queue.get()
            got += numbers(batch)

        assert got == list(range(made))
        assert batch[-1] is LAST
        assert queue.waiting == 0

    with patch.object(module, "BATCH_FRAMES", batch_frames):
        trio.run(main)


async def test_a_batch_holds_all_that_waits() -> None:
    queue = FrameQueue()
    for number in range(5):
        put(queue, number)

    assert numbers(await queue.get()) == [0, 1, 2, 3, 4]


async def test_a_flood_comes_in_batches_that_hold_up_nobody() -> None:
    queue = FrameQueue()
    for number in range(2 * BATCH_FRAMES + 1):
        put(queue, number)
    queue.close(LAST)
    batches = [await queue.get() for _ in range(3)]

    assert [len(numbers(batch)) for batch in batches] == [BATCH_FRAMES, BATCH_FRAMES, 1]
    assert batches[2][-1] is LAST
    assert [n for batch in batches for n in numbers(batch)] == list(range(2 * BATCH_FRAMES + 1))


async def test_memory_is_bounded_and_the_file_goes_when_it_was_read() -> None:
    queue = FrameQueue(limit_bytes=1_000)
    for number in range(100):
        put(queue, number)
    in_memory = numbers(await queue.get())

    assert len(in_memory) < 20
    assert queue._file is not None
    rest = numbers(await queue.get())
    assert in_memory + rest == list(range(100))
    assert queue._file is None


async def test_a_cancelled_get_takes_nothing(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    queue = FrameQueue()
    with trio.move_on_after(1):
        await queue.get()
    put(queue, 1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await queue.get()

    assert numbers(await queue.get()) == [1]


async def test_a_waiting_get_wakes_for_the_last_frame(nursery: trio.Nursery) -> None:
    queue = FrameQueue()
    got: list[Frame] = []

    async def take() -> None:
        got.extend(await queue.get())

    nursery.start_soon(take)
    await wait_all_tasks_blocked()
    queue.close(LAST)
    await wait_all_tasks_blocked()

    assert got == [LAST]


async def test_discard_gives_the_file_back(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    make = tempfile.TemporaryFile

    def remember() -> object:
        files.append(make())
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", remember)
    queue = FrameQueue(limit_bytes=0)
    put(queue, 1)
    queue.discard()

    assert [file.closed for file in files] == [True]
