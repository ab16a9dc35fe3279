"""A server tells its listeners every commit once and in order, its own and others' (16.4)."""

from collections.abc import Iterable, Sequence

import pytest
import trio
from outcome import Outcome
from trio.testing import wait_all_tasks_blocked

from scuba.server.store import news
from scuba.server.store.change_log import Batch
from scuba.server.store.changes import Change, Missed, Moved, TokenEnded
from scuba.server.store.database import Broken
from scuba.server.store.news import News


class FakeEar:
    """A log of changes in memory, and no wake-ups: what is heard, the poll has heard."""

    def __init__(self) -> None:
        self.began_at = 7
        self.log: list[Batch] = []
        self.broken = 0
        """So many times it will be."""
        self.asked = trio.Event()
        self.closed = False

    def wake_up(self) -> int | None:
        return None

    def woken(self, server: str) -> bool:
        raise AssertionError(server)

    def since(self, after: int) -> list[Batch]:
        trio.from_thread.run_sync(self.asked.set)
        if self.broken:
            self.broken -= 1
            raise Broken("gone")
        return [batch for batch in self.log if batch.seq > after]

    def close(self) -> None:
        self.closed = True

    def add(self, seq: int, server: str, *changes: Change) -> None:
        self.log.append(Batch(seq, server, changes))


class Heard:
    """News over a fake ear, with what they told."""

    def __init__(self) -> None:
        self.ear = FakeEar()
        self.told: list[Change] = []
        self.heard_some = trio.Event()
        self.news = News(self.ear, self._tell)

    def _tell(self, changes: Iterable[Change]) -> None:
        self.told += changes
        self.heard_some.set()

    async def catch_up(self) -> None:
        with trio.fail_after(10):
            while await self.news.catch_up():
                pass


@pytest.fixture
async def heard() -> Heard:
    return Heard()


def nothing(_: Sequence[Outcome[object]]) -> list[Change]:
    return []


async def test_what_others_commit_is_told_once_and_in_order(heard: Heard) -> None:
    heard.ear.add(8, "other", Moved("a", 1), TokenEnded("t"))
    heard.ear.add(9, "third", Moved("b", 4))
    await heard.catch_up()
    heard.ear.add(10, "other", Moved("a", 2))
    await heard.catch_up()

    assert heard.told == [Moved("a", 1), TokenEnded("t"), Moved("b", 4), Moved("a", 2)]


async def test_what_came_before_an_own_commit_is_told_before_it(heard: Heard) -> None:
    sealing = heard.news.begin(nothing)
    sealing.seq, sealing.before = 9, [Batch(8, "other", (TokenEnded("t"),))]
    heard.news.committed(sealing)
    heard.told.append(Moved("own", 1))
    heard.news.ended()
    heard.ear.log = [*sealing.before, Batch(9, heard.news.server, (Moved("own", 1),))]
    await heard.catch_up()

    assert heard.told == [TokenEnded("t"), Moved("own", 1)]


async def test_nothing_is_told_past_an_own_commit_that_is_still_running(heard: Heard) -> None:
    sealing = heard.news.begin(nothing)
    heard.ear.add(8, heard.news.server, Moved("own", 1))
    heard.ear.add(9, "other", Moved("a", 1))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heard.catch_up)
            await heard.ear.asked.wait()
            await wait_all_tasks_blocked(0.05)
            assert heard.told == []

            sealing.seq = 8
            heard.news.committed(sealing)
            heard.told.append(Moved("own", 1))
            heard.news.ended()
    assert heard.told == [Moved("own", 1), Moved("a", 1)]


async def test_a_commit_that_was_uncertain_is_heard_of_like_others(heard: Heard) -> None:
    heard.news.begin(nothing)
    heard.ear.add(8, heard.news.server, Moved("own", 1))
    heard.news.ended()
    await heard.catch_up()

    assert heard.told == [Moved("own", 1)]


async def test_whoever_was_out_of_touch_for_too_long_looks_at_everything_again(
    heard: Heard,
) -> None:
    heard.ear.add(12, "other", Moved("a", 5))
    await heard.catch_up()
    assert heard.told == [Missed(), Moved("a", 5)]

    sealing = heard.news.begin(nothing)
    sealing.seq, sealing.before = 20, [Batch(15, "other", ())]
    heard.news.committed(sealing)
    heard.news.ended()
    assert heard.told[2:] == [Missed(), Missed()]


async def test_a_lost_session_is_said_once_and_loses_nothing(
    heard: Heard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "POLL_S", 0.01)
    heard.ear.broken = 3
    heard.ear.add(8, "other", Moved("a", 1))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heard.news.run)
            await heard.heard_some.wait()
            nursery.cancel_scope.cancel()

    assert heard.told == [Moved("a", 1)]
    assert len([r for r in caplog.records if "cannot hear" in r.message]) == 1
    assert heard.ear.closed
