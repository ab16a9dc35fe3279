"""A whole bot on fakes: whose messages become a prompt, and how it says who said what."""

import trio.testing
from trio.testing import MockClock

from actors.people import Person
from actors.ports import Refused
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BEN, FakeSession


def quiet(session: FakeSession) -> None:
    session.echoes = False


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


def prompts(bot: Bot) -> list[str]:
    """Return what sessions were asked on the thread, in order."""
    return [text for session in bot.harness.sessions for _, text in session.prompts]


async def say_while_busy(bot: Bot, *messages: tuple[str, str]) -> None:
    """Have people speak during one turn, and let that turn end."""
    bot.harness.prepare = quiet
    bot.log.say(ROOM, "first")
    await still()
    for principal_id, text in messages:
        bot.log.say(ROOM, text, principal_id)
    await still()
    session = bot.harness.of(ROOM)
    session.echoes = True
    session.end()
    await bot.until_finished(2)


async def test_what_several_said_while_the_bot_was_busy_tells_who_said_what(
    autojump_clock: MockClock,
) -> None:
    """Field case 1.5: looked up once, labelled once, and nowhere but in the prompt."""
    async with bot_in_room() as bot:
        bot.log.names[ADA] = Person(ADA, "user", "Ada")
        await say_while_busy(bot, (ADA, "second"), (BEN, "third"), (ADA, "fourth"))
        labelled = prompts(bot)[1]
        bot.log.say(ROOM, "alone", BEN)
        await bot.until_finished(3)

        assert labelled.endswith(
            'user-ada ("Ada") wrote:\n> second\n\nuser-ben wrote:\n> third\n\n'
            'user-ada ("Ada") wrote:\n> fourth'
        )
        assert prompts(bot)[2] == "alone"
        assert bot.log.asked_about == [[ADA, BEN]]


async def test_where_nobody_says_who_is_who_the_ids_do(autojump_clock: MockClock) -> None:
    """Field case 1.5."""

    async def refuse(*_: object) -> list[Person]:
        await trio.lowlevel.checkpoint()
        raise Refused("thread_not_found", "no", 404)

    async with bot_in_room() as bot:
        bot.log.people = refuse  # type: ignore[method-assign,assignment]  # a fault on order
        await say_while_busy(bot, (ADA, "second"), (BEN, "third"))

        assert prompts(bot)[1].endswith("user-ada wrote:\n> second\n\nuser-ben wrote:\n> third")
