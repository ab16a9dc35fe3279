"""The backlog: where a thread is taken up, by the whole matrix of policies."""

import msgspec
import pytest
import trio
from trio.testing import MockClock

from actors.backlog import (
    Backlog,
    OnFirstJoin,
    OnResume,
    Start,
    after_crash,
    answered,
    has_news,
    skipped,
    start,
)
from actors.events import Event, InterruptRequested, RunFinished, RunStatus, Unknown
from actors.messages import ThreadGranted
from actors.ports import Position
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import BOT

HERE = ThreadGranted(thread_id="t", joined_seq=10)
NONE = None
RESUMED = Position("e-1", 30)
BEFORE_THE_JOIN = Position("e-1", 4)
OF_ANOTHER_LOG = Position("e-0", 30)


@pytest.mark.parametrize(
    ("checkpoint", "policy", "expected"),
    [
        (NONE, "since_joined", Start(10)),
        (NONE, "catch_up", Start(0)),
        (NONE, "skip_to_head", Start(0, skips=True)),
        (OF_ANOTHER_LOG, "since_joined", Start(10)),
        (OF_ANOTHER_LOG, "catch_up", Start(0)),
        (OF_ANOTHER_LOG, "skip_to_head", Start(0, skips=True)),
        (BEFORE_THE_JOIN, "since_joined", Start(10)),
        (BEFORE_THE_JOIN, "catch_up", Start(4)),
        (BEFORE_THE_JOIN, "skip_to_head", Start(4, skips=True)),
    ],
)
@pytest.mark.parametrize("on_resume", ["catch_up", "skip_to_head"])
def test_a_first_join_follows_its_own_policy(
    checkpoint: Position | None, policy: OnFirstJoin, expected: Start, on_resume: OnResume
) -> None:
    """A join that is newer than the checkpoint is a first join."""
    backlog = Backlog(on_first_join=policy, on_resume=on_resume)

    assert start(HERE, checkpoint, "e-1", backlog) == expected


@pytest.mark.parametrize("on_first_join", ["since_joined", "catch_up", "skip_to_head"])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [("catch_up", Start(30)), ("skip_to_head", Start(30, skips=True))],
)
def test_a_resumption_follows_the_other(
    on_first_join: OnFirstJoin, policy: OnResume, expected: Start
) -> None:
    backlog = Backlog(on_first_join=on_first_join, on_resume=policy)

    assert start(HERE, RESUMED, "e-1", backlog) == expected


@pytest.mark.parametrize("checkpoint", [NONE, RESUMED])
def test_without_replay_all_is_skipped(checkpoint: Position | None) -> None:
    assert start(HERE, checkpoint, "e-1", Backlog(max_replay=0)).skips


def test_what_came_during_a_crash_is_never_skipped() -> None:
    policy = after_crash(Backlog(on_resume="skip_to_head", max_replay=0))

    assert start(HERE, RESUMED, "e-1", policy) == Start(30)


@pytest.mark.parametrize(("last_seq", "news"), [(None, True), (11, True), (10, False), (3, False)])
def test_a_quiet_thread_is_not_read(last_seq: int | None, news: bool) -> None:
    granted = ThreadGranted(thread_id="t", joined_seq=1, last_seq=last_seq)

    assert has_news(granted, 10) is news


@pytest.mark.parametrize(("first", "count"), [(11, 0), (21, 10), (5, 0)])
def test_what_lies_between_floor_and_window_is_counted(first: int, count: int) -> None:
    """A window may reach below the floor for the beginning of a run."""
    assert skipped(10, [Event(seq=first, principal_id="ada", body=Unknown())]) == count
    assert skipped(10, []) == 0


def policy(**fields: object) -> Policy:
    backlog = msgspec.convert(fields, Backlog)
    return Policy(own_principal_id=BOT, backlog=backlog)


@pytest.mark.parametrize(
    ("fields", "answered"),
    [
        ({}, "echo: 3\n\n4"),
        ({"on_first_join": "catch_up"}, "echo: 1\n\n2\n\n3\n\n4"),
        ({"on_first_join": "catch_up", "max_replay": 1}, "echo: 4"),
        ({"max_replay": 1}, "echo: 4"),
        ({"on_first_join": "skip_to_head"}, ""),
    ],
)
@pytest.mark.parametrize("head_is_known", [True, False])
async def test_a_backlog_is_one_turn_at_most_and_what_comes_live_is_answered(
    autojump_clock: MockClock, fields: dict[str, object], answered: str, head_is_known: bool
) -> None:
    """Field case 7.8: the newest window, coalesced; skipping starts no turn."""
    bot = Bot()
    bot.policy = policy(**fields)
    for number in (1, 2, 3, 4):
        bot.log.say(ROOM, str(number))
    last_seq = 4 if head_is_known else None
    async with bot_in_room(bot, joined_seq=2, last_seq=last_seq):
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert bot.log.text(ROOM) == answered

        bot.log.say(ROOM, "live")
        await bot.until_finished(2 if answered else 1)

        assert bot.log.text(ROOM) == answered + "echo: live"


async def test_what_was_skipped_once_is_not_found_by_the_next_start(
    autojump_clock: MockClock,
) -> None:
    """And what is said while the bot is away is answered, as on any resumption."""
    first = Bot()
    first.policy = policy(on_first_join="skip_to_head")
    first.log.say(ROOM, "before")
    async with bot_in_room(first):
        await trio.testing.wait_all_tasks_blocked(0.01)
    second = Bot()
    second.policy, second.log, second.journal = first.policy, first.log, first.journal
    second.log._grants.clear()
    second.log.say(ROOM, "while away")
    async with bot_in_room(second):
        await second.until_finished(1)

        assert second.log.text(ROOM) == "echo: while away"


def test_only_what_ended_or_was_stopped_by_somebody_counts_as_answered() -> None:
    """Field case 7.1: without a journal nothing failed is tried again, and nothing unwanted."""

    def ended(run_id: str, status: RunStatus, seq: int | None, by: str = "bot") -> Event:
        body = RunFinished(status=status, through_seq=seq)
        return Event(seq=50, principal_id=by, body=body, run_id=run_id)

    stop = Event(seq=9, principal_id="ada", body=InterruptRequested(), run_id="r2")
    assert answered([], "bot") == 0
    assert answered([ended("r", "completed", 7), ended("r", "failed", 9)], "bot") == 9
    assert answered([ended("r", "completed", 7, "ada"), ended("r", "failed", None)], "bot") == 0
    cut, stopped = ended("r1", "interrupted", 8), ended("r2", "interrupted", 7)
    assert answered([stop, cut, stopped], "bot") == 7
