"""Gate: many threads that cannot append ask the server no more often than a few would."""

import logging

import pytest
import trio
from trio.testing import MockClock

from actors.events import Draft, RunFinishedPayload, TextDelta, part
from actors.messages import Append, Landed, OutboxInbox, ThreadInbox
from actors.outbox import OutboxActor
from actors.ports import Refused, Unavailable
from scuba.bubble.backoff import CAP_S
from scuba.bubble.gate import Gate
from tests.kit.fakes import FakeJournal, FakeLog

THREADS = 200
DOWN_S = 1800.0


class DownLog(FakeLog):
    """A log behind a gate, as `BubbleLog` is one, whose server is down until `well`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.well = False
        self.asked: list[float] = []

    async def append(self, thread_id: str, events: object) -> list[int]:
        async def call() -> list[int]:
            self.asked.append(trio.current_time())
            await trio.lowlevel.checkpoint()
            if not self.well:
                raise Unavailable("502 http_502: Bad Gateway")
            return list(await FakeLog.append(self, thread_id, events))  # type: ignore[arg-type]

        return await self.gate.through(call)


async def test_two_hundred_threads_make_no_storm_and_recover_within_one_cap(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 8.4: down for 30 minutes, then up; few requests, few lines, all delivered."""
    caplog.set_level(logging.INFO)
    log, journal = DownLog(), FakeJournal()
    told_send, told = trio.open_memory_channel[ThreadInbox](THREADS)
    async with trio.open_nursery() as nursery:
        inboxes: list[trio.MemorySendChannel[OutboxInbox]] = []
        for number in range(THREADS):
            log.threads[f"t{number}"] = []
            send, receive = trio.open_memory_channel[OutboxInbox](0)
            actor = OutboxActor(f"t{number}", receive, told_send.clone(), log, journal)
            await nursery.start(actor.run)
            inboxes.append(send)
        for number, send in enumerate(inboxes):
            run = f"run_{number}"
            finished = Draft("run_finished", run, RunFinishedPayload(status="completed"))
            hello = part(run, TextDelta(id="t", delta="hello"))
            await send.send(Append((hello, finished)))
        await trio.sleep(DOWN_S)
        asked_while_down = len(log.asked)
        log.well, well_since = True, trio.current_time()
        landed = [await told.receive() for _ in range(THREADS)]
        recovered_s = trio.current_time() - well_since
        nursery.cancel_scope.cancel()

    later = [at for at in log.asked if 60 < at < DOWN_S]
    assert asked_while_down < THREADS + DOWN_S / 4
    assert max(_per_minute(later)) <= 20
    assert recovered_s <= CAP_S + 1
    assert {message.run_id for message in landed if isinstance(message, Landed)} == {
        f"run_{number}" for number in range(THREADS)
    }
    assert all(log.text(f"t{number}") == "hello" for number in range(THREADS))
    assert len(caplog.messages) <= DOWN_S / 60 + 2


def _per_minute(times: list[float]) -> list[int]:
    return [sum(start <= at < start + 60 for at in times) for start in times]


async def test_a_limit_or_a_refusal_of_one_thread_holds_no_other(
    autojump_clock: MockClock,
) -> None:
    """Field case 8.11: a thread that is told to wait does not close the gate."""
    gate = Gate()

    async def says(error: Exception) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async def works() -> str:
        await trio.lowlevel.checkpoint()
        return "works"

    with pytest.raises(Unavailable):
        await gate.through(lambda: says(Unavailable("429", 60.0, is_limit=True)))
    assert await gate.through(works) == "works"
    with pytest.raises(Refused):
        await gate.through(lambda: says(Refused("forbidden", "no", 403)))
    assert await gate.through(works) == "works"
    assert trio.current_time() == 0.0


async def test_who_is_cancelled_at_the_gate_leaves_its_turn_to_the_next(
    autojump_clock: MockClock,
) -> None:
    gate, well = Gate(), False

    async def call() -> bool:
        await trio.lowlevel.checkpoint()
        if not well:
            raise Unavailable("down", 20.0)
        return True

    with pytest.raises(Unavailable):
        await gate.through(call)
    with trio.move_on_after(1):
        await gate.through(call)
    well = True

    assert await gate.through(call)
    assert trio.current_time() == 20.0
