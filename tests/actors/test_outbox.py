"""OutboxActor: each event arrives once and in order; what cannot arrive holds nothing up."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from actors.events import Draft, RunFinishedPayload, RunStartedPayload, TextDelta, TextStart, part
from actors.lane import FLUSH_S
from actors.messages import Append, Landed, OutboxInbox, RunRefused, ThreadInbox
from actors.outbox import OutboxActor
from actors.pending import MOST_CHARS
from actors.ports import Refused, Unavailable
from tests.kit.fakes import FakeJournal, FakeLog

ROOM, RUN = "thr_a", "run_1"
STARTED = Draft("run_started", RUN, RunStartedPayload())
FINISHED = Draft("run_finished", RUN, RunFinishedPayload(status="completed"))


def delta(text: str) -> Draft:
    return part(RUN, TextDelta(id="t1", delta=text))


class Out:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.log.threads[ROOM] = []
        self.inbox, receive = trio.open_memory_channel[OutboxInbox](0)
        outbox, self.told = trio.open_memory_channel[ThreadInbox](10)
        self.journal = FakeJournal()
        self.actor = OutboxActor(ROOM, receive, outbox, self.log, self.journal, jitter=lambda: 1.0)

    async def send(self, *drafts: Draft) -> None:
        await self.inbox.send(Append(drafts))

    @property
    def times(self) -> list[float]:
        return [at for _, _, at in self.log.appends]


@asynccontextmanager
async def outbox() -> AsyncGenerator[Out]:
    out = Out()
    async with trio.open_nursery() as nursery:
        await nursery.start(out.actor.run)
        yield out
        nursery.cancel_scope.cancel()


async def test_the_first_delta_leaves_at_once_and_later_ones_ten_times_a_second(
    autojump_clock: MockClock,
) -> None:
    """Field case 14.3, the part that is ours: merged, exact, first text quickly."""
    async with outbox() as out:
        await out.send(STARTED, part(RUN, TextStart(id="t1")), delta("first"))
        await wait_all_tasks_blocked()
        assert out.times == [0.0]
        for _ in range(1000):
            await out.send(delta("x"))
            await trio.sleep(0.001)
        await trio.sleep(FLUSH_S)

        assert out.log.text(ROOM) == "first" + "x" * 1000
        assert len(out.times) <= 13


async def test_what_people_wait_for_does_not_wait(autojump_clock: MockClock) -> None:
    async with outbox() as out:
        await out.send(STARTED, delta("a"))
        await wait_all_tasks_blocked()
        await out.send(delta("b"))
        await out.send(FINISHED)
        await wait_all_tasks_blocked()

        assert out.times == [0.0, 0.0]
        assert await out.told.receive() == Landed(RUN)


async def test_an_uncertain_append_is_repeated_unchanged_before_anything_newer(
    autojump_clock: MockClock,
) -> None:
    """Field case 2.4."""
    async with outbox() as out:
        out.log.faults = [Unavailable("cut"), Unavailable("cut")]
        await out.send(STARTED, delta("a"))
        await wait_all_tasks_blocked()
        await out.send(delta("b"), FINISHED)
        await out.told.receive()

        batches = [batch for _, batch, _ in out.log.appends]
        assert batches[0] == batches[1] == batches[2]
        assert out.times[1] - out.times[0] == 0.5
        assert out.times[2] - out.times[1] == 1.0
        assert out.log.text(ROOM) == "ab"


async def test_retry_after_is_obeyed_and_the_end_of_the_run_lands(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.11, the bot's side."""
    async with outbox() as out:
        out.log.faults = [Unavailable("429", 5.0), Unavailable("429", 5.0)]
        await out.send(STARTED, delta("a"), FINISHED)
        assert await out.told.receive() == Landed(RUN)

        assert out.times == [0.0, 5.0, 10.0]


async def test_backoff_is_capped(autojump_clock: MockClock) -> None:
    async with outbox() as out:
        out.log.faults = [Unavailable("down") for _ in range(12)]
        await out.send(FINISHED)
        await out.told.receive()

        gaps = [b - a for a, b in zip(out.times, out.times[1:], strict=False)]
        assert max(gaps) == 30.0


async def test_a_bad_event_is_replaced_and_the_run_goes_on(autojump_clock: MockClock) -> None:
    """Field case 9.4."""
    async with outbox() as out:
        out.log.faults = [Refused("invalid_text", "NUL", 400, 1)]
        await out.send(STARTED, delta("bad"), FINISHED)
        assert await out.told.receive() == Landed(RUN)

        assert out.log.shown(ROOM) == ["run_started", "data-notice", "completed"]


async def test_a_batch_that_is_refused_whole_is_tried_one_by_one(
    autojump_clock: MockClock,
) -> None:
    async with outbox() as out:
        out.log.faults = [Refused("batch_too_large", "too large", 413)]
        await out.send(STARTED, delta("a"), FINISHED)
        await out.told.receive()

        assert [len(batch) for _, batch, _ in out.log.appends] == [3, 1, 2]
        assert out.log.shown(ROOM) == ["run_started", "text-delta", "completed"]


async def test_a_thread_that_may_not_be_written_to_ends_its_run_all_the_same(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.2: the loss is local, and nothing waits for ever."""
    async with outbox() as out:
        out.log.faults = [Refused("forbidden", "no", 403)]
        await out.send(STARTED, FINISHED)

        assert await out.told.receive() == RunRefused(RUN, "forbidden")
        assert await out.told.receive() == Landed(RUN)
        assert out.log.appends[1:] == []


async def test_of_a_run_that_was_not_let_begin_nothing_is_appended(
    autojump_clock: MockClock,
) -> None:
    """Its parts alone would stand there as a bare message (5.4)."""
    async with outbox() as out:
        out.log.faults = [Refused("forbidden", "no", 403)]
        await out.send(STARTED)
        assert await out.told.receive() == RunRefused(RUN, "forbidden")
        await out.send(delta("a"))
        await out.send(FINISHED)
        assert await out.told.receive() == Landed(RUN)
        other = Draft("run_started", "run_2", RunStartedPayload())
        await out.send(other)
        await trio.sleep(1)

        assert out.log.shown(ROOM) == ["run_started"]
        assert out.log.threads[ROOM][0].run_id == "run_2"


async def test_closing_flushes_what_waits(autojump_clock: MockClock) -> None:
    out = Out()
    async with trio.open_nursery() as nursery:
        await nursery.start(out.actor.run)
        await out.send(STARTED, delta("a"))
        await wait_all_tasks_blocked()
        await out.send(delta("b"))
        out.inbox.close()

    assert out.log.text(ROOM) == "ab"


async def test_cancelled_anywhere_it_sends_nothing_more(autojump_clock: MockClock) -> None:
    async with outbox() as out:
        out.log.faults = [Unavailable("down")]
        await out.send(STARTED)
        await wait_all_tasks_blocked()
    await trio.sleep(60)

    assert len(out.log.appends) == 1


async def test_what_the_server_does_not_take_for_long_is_on_record_and_arrives_in_order(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.10: held in a bounded queue, in order, nothing lost and nothing doubled."""
    async with outbox() as out:
        out.log.faults = [Unavailable("down") for _ in range(8)]
        said = [f"{number:06d}" + "x" * 9_994 for number in range(500)]
        await out.send(STARTED, part(RUN, TextStart(id="t1")))
        most_chars = 0
        for text in said:
            await out.send(delta(text))
            most_chars = max(most_chars, out.actor.chars)
        assert len(out.journal.unsent[ROOM]) > 300
        await out.send(FINISHED)
        while not isinstance(await out.told.receive(), Landed):
            pass

        assert out.log.text(ROOM) == "".join(said)
        assert out.log.shown(ROOM)[0] == "run_started"
        assert out.log.shown(ROOM)[-1] == "completed"
        assert most_chars <= MOST_CHARS + 20_000
