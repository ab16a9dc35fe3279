"""The server's log lost its newest events: the bot goes on at its head, and repeats nothing."""

import trio.testing
from trio.testing import MockClock

from actors.harness import TextSaid
from actors.ports import Position
from tests.actors.test_lives import open_runs, quiet
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import BOT


async def settle_one(bot: Bot) -> None:
    bot.log.say(ROOM, "one")
    await bot.until_finished(1)


async def test_what_comes_after_is_answered_and_what_was_answered_is_not_again(
    autojump_clock: MockClock,
) -> None:
    async with bot_in_room() as bot:
        await settle_one(bot)
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)
        prompts = len(bot.harness.of(ROOM).prompts)
        bot.log.lose(ROOM, 2)
        await trio.testing.wait_all_tasks_blocked()

        assert bot.journal.checkpoints()[ROOM] == Position("e-1", 2)
        assert bot.finished() == []
        bot.log.say(ROOM, "three")
        await bot.until_finished(1)
        assert bot.log.text(ROOM) == "echo: three"
        assert bot.journal.checkpoints()[ROOM].seq == bot.log.marks[ROOM] == 3
    assert prompts == 2


async def test_a_start_with_a_checkpoint_beyond_the_log_goes_on_at_its_head(
    autojump_clock: MockClock,
) -> None:
    """Also below the latest join that the bot was told of: never a crash loop."""
    bot = Bot()
    bot.journal.held[ROOM] = Position("e-1", 50)
    async with bot_in_room(bot, joined_seq=40, last_seq=1):
        await trio.testing.wait_all_tasks_blocked()
        assert bot.log.subscribers[ROOM] == 1
        bot.log.say(ROOM, "hello")
        await bot.until_finished(1)

        assert bot.log.text(ROOM) == "echo: hello"


async def test_a_run_in_hand_is_ended_and_its_process_is_gone(autojump_clock: MockClock) -> None:
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked()
        bot.harness.of(ROOM).say(TextSaid("b", "half"))
        await trio.testing.wait_all_tasks_blocked(0.5)
        bot.harness.prepare = lambda session: None
        bot.log.lose(ROOM, 3)
        await trio.testing.wait_all_tasks_blocked(0.5)

        assert [event.principal_id for event in bot.log.threads[ROOM]][2] == BOT
        assert open_runs(bot) == []
