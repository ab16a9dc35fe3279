"""A thread that crashes again and again is left alone, says so, and takes nobody else along."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.conversation import Conversation
from actors.events import DataNotice, PartPayload, RunFinishedPayload, Unknown
from actors.harness import Attachment, TextSaid
from actors.messages import EventsSeen, HarnessSaid, ThreadInbox
from tests.actors.test_lives import open_runs
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, FakeSession

OTHER = "thr_b"


def crashing(monkeypatch: pytest.MonkeyPatch, kind: type[ThreadInbox], text: str) -> list[bool]:
    """Let each conversation crash at a message of a kind that holds `text`, until it is cleared."""
    step, holds = Conversation.step, [True]

    def failing(self: Conversation, message: ThreadInbox) -> object:
        if holds and isinstance(message, kind) and text in repr(message):
            raise ValueError("a bug")
        return step(self, message)

    monkeypatch.setattr(Conversation, "step", failing)
    return holds


def wordy(session: FakeSession) -> None:
    """Begin each answer, and end none."""
    session.echoes, prompt = False, session.prompt

    async def begin(prompt_id: str, text: str, attachments: Sequence[Attachment] = ()) -> None:
        await prompt(prompt_id, text, attachments)
        session.say(TextSaid("b", "poison"))

    session.prompt = begin  # type: ignore[method-assign]  # a fault on order


def notices(bot: Bot) -> list[str]:
    chunks = [payload.chunk for payload in bot.log.own(ROOM) if isinstance(payload, PartPayload)]
    return [chunk.data.code for chunk in chunks if isinstance(chunk, DataNotice)]


async def talk_till_parked(bot: Bot) -> None:
    """Have the agent bring down its thread; one message alone would be given up before that."""

    def prepare(session: FakeSession) -> None:
        if session.thread_id == ROOM:
            wordy(session)

    bot.harness.prepare = prepare
    bot.log.say(ROOM, "one")
    await trio.testing.wait_all_tasks_blocked(0.01)
    bot.log.say(ROOM, "two")
    await trio.sleep(60)
    assert notices(bot)[-1:] == ["thread_parked"]
    assert notices(bot).count("thread_parked") == 1
    bot.harness.prepare = lambda session: None


async def ask_elsewhere(bot: Bot) -> None:
    """Find the other thread at work, at once."""
    done = len(bot.finished(OTHER))
    bot.log.say(OTHER, "hello")
    with trio.fail_after(1):
        await bot.until_finished(done + 1, OTHER)


async def test_a_parked_thread_ends_its_run_and_says_why(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Field case 10.3: a crash loop is bounded and told; the others never notice."""
    crashing(monkeypatch, HarnessSaid, "poison")
    async with bot_in_room() as bot:
        bot.log.grant(OTHER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk_till_parked, bot)
            for _ in range(30):
                await trio.sleep(1)
                await ask_elsewhere(bot)
        parked = bot.log.shown(ROOM)

        assert parked[-2:] == ["data-notice", "interrupted"]
        assert open_runs(bot) == []
        bot.log.say(ROOM, "anybody?")
        await trio.sleep(300)
        assert bot.log.shown(ROOM) == parked
        assert [session.thread_id for session in bot.harness.live] == [OTHER]


@pytest.mark.parametrize("how", ["granted anew", "started anew"])
async def test_a_parked_thread_is_taken_up_again(
    how: str, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Field case 10.3: the message that was not answered is, once what was wrong is put right."""
    holds = crashing(monkeypatch, HarnessSaid, "poison")
    first = Bot()
    async with bot_in_room(first) as bot:
        await talk_till_parked(bot)
        holds.clear()
        if how == "granted anew":
            bot.log.revoke(ROOM)
            bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
            bot.log.say(ROOM, "and now?")
            await trio.sleep(10)
    if how == "started anew":
        bot = Bot()
        bot.log, bot.journal = first.log, first.journal
        bot.harness.records = first.harness.records
        bot.log._grants.clear()
        async with bot_in_room(bot):
            bot.log.say(ROOM, "and now?")
            await trio.sleep(10)

    assert bot.finished()[-1] == "completed"
    assert "and now?" in bot.log.text(ROOM)
    assert open_runs(bot) == []


async def test_a_thread_that_crashes_before_any_run_says_so_in_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Field case 10.3: and that run answers nothing, so that the next start still does."""
    holds = crashing(monkeypatch, EventsSeen, "poison")
    async with bot_in_room() as bot:
        bot.log.say(ROOM, "poison")
        await trio.sleep(60)

        assert bot.log.shown(ROOM) == ["run_started", "data-notice", "failed"]
        last = bot.log.own(ROOM)[-1]
        assert isinstance(last, RunFinishedPayload)
        assert last.through_seq is None
    holds.clear()
    second = Bot()
    second.log, second.journal = bot.log, bot.journal
    second.log._grants.clear()
    async with bot_in_room(second):
        await second.until_finished(2)
        assert second.log.text(ROOM) == "echo: poison"


async def test_a_session_that_crashes_its_actor_each_time_parks_its_thread_only(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.3: QueryActor is begun anew a few times, then its thread, then neither."""

    def buggy(session: FakeSession) -> None:
        if session.thread_id == ROOM:
            session.crash(ValueError("a bug"))

    async with bot_in_room() as bot:
        bot.harness.prepare = buggy
        bot.log.grant(OTHER)
        for number in range(40):
            bot.log.say(ROOM, f"number {number}")
            await trio.sleep(1)
            await ask_elsewhere(bot)
        await trio.sleep(60)

        assert notices(bot)[-1:] == ["thread_parked"]
        assert set(notices(bot)) == {"agent_failed", "thread_parked"}
        assert open_runs(bot) == []
        await ask_elsewhere(bot)


async def test_a_thread_whose_end_cannot_even_be_told_takes_nobody_along(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Field case 10.3: whoever would say the note may be the one that crashes."""
    crashing(monkeypatch, HarnessSaid, "poison")
    bot = Bot()
    read = bot.log.run_events

    async def failing(thread_id: str, run_id: str) -> object:
        if thread_id == ROOM:
            raise ValueError("a bug")
        return await read(thread_id, run_id)

    monkeypatch.setattr(bot.log, "run_events", failing)
    async with bot_in_room(bot):
        bot.log.grant(OTHER)
        bot.harness.prepare = wordy
        bot.log.say(ROOM, "one")
        await trio.sleep(120)
        bot.harness.prepare = lambda session: None
        await ask_elsewhere(bot)

        assert not bot.stopped.is_set()


async def test_a_parked_thread_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    crashing(monkeypatch, HarnessSaid, "poison")
    async with bot_in_room() as bot:
        await talk_till_parked(bot)
        began = trio.current_time()
        bot.stop.set()
        await bot.stopped.wait()

        assert trio.current_time() - began < 1
