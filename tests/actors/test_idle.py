"""Idle sessions and full houses, with whole bots (field case 10.6)."""

import trio
import trio.testing
from trio.testing import MockClock

from actors.harness import PermissionAsked, TasksRunning, Woke
from actors.thread_scope import Policy
from tests.kit.bot import Bot, bot_in_room
from tests.kit.fakes import BOT, FakeSession


def quiet(session: FakeSession) -> None:
    session.echoes = False


async def test_a_session_that_rested_for_long_is_closed_and_resumed_by_the_next_message(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.6."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, idle_s=600)
    async with bot_in_room(bot):
        bot.log.say("thr_a", "one")
        await bot.until_finished(1)
        await trio.sleep(599)
        bot.log.say("thr_a", "two")
        await bot.until_finished(2)
        assert len(bot.harness.sessions) == 1
        await trio.sleep(599)
        assert len(bot.harness.live) == 1

        await trio.sleep(2)
        assert bot.harness.live == []
        bot.log.say("thr_a", "three")
        await bot.until_finished(3)

        assert bot.harness.resumed == [None, "session-1"]
        assert bot.log.text("thr_a") == "echo: oneecho: twoecho: three"


async def test_a_session_for_one_turn_is_closed_before_the_next_begins(
    autojump_clock: MockClock,
) -> None:
    """And what waited for the end of the turn is answered by the session resumed."""

    def for_one(session: FakeSession) -> None:
        assert bot.harness.live == []
        session.is_for_one, session.echoes = True, False

    bot = Bot()
    bot.harness.prepare = for_one
    bot.harness.closing_s = 3
    async with bot_in_room(bot):
        bot.log.say("thr_a", "one")
        await trio.testing.wait_all_tasks_blocked()
        bot.log.say("thr_a", "two")
        bot.harness.of("thr_a").end()
        await trio.sleep(4)
        bot.harness.of("thr_a").end()
        await bot.until_finished(2)
        await trio.sleep(4)

        assert bot.harness.live == []
        assert bot.harness.resumed == [None, "session-1"]
        assert [session.prompts[0][1] for session in bot.harness.sessions] == ["one", "two"]


async def test_a_session_that_closes_is_kept_for_the_turn_that_it_was_given_meanwhile(
    autojump_clock: MockClock,
) -> None:
    """It was woken, and the end of that turn is no reason to lose the prompt that waits."""
    bot = Bot()
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say("thr_a", "one")
        await trio.testing.wait_all_tasks_blocked()
        session = bot.harness.of("thr_a")
        session.say(TasksRunning(1))
        session.end()
        await bot.until_finished(1)
        session.say(Woke("woken-1", "task-1"))
        bot.log.say("thr_a", "two")
        await trio.testing.wait_all_tasks_blocked()
        session.is_for_one = True
        session.end(prompt_id="woken-1")
        await trio.testing.wait_all_tasks_blocked()
        assert bot.harness.live == [session]

        session.end()
        await bot.until_finished(3)
        await trio.sleep(1)

        assert bot.harness.live == []
        assert bot.finished() == ["completed"] * 3


async def test_a_turn_however_long_is_not_idle(autojump_clock: MockClock) -> None:
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, idle_s=10)
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.say("thr_a", "one")
        await trio.sleep(1000)
        assert len(bot.harness.live) == 1

        bot.harness.of("thr_a").end()
        await bot.until_finished(1)


async def test_many_threads_share_a_few_sessions(autojump_clock: MockClock) -> None:
    """Field case 10.6: never more than the cap, everybody is answered, the old ones resume."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, idle_s=600, max_live=5, max_processes=8)
    most = 0

    def prepare(_: FakeSession) -> None:
        nonlocal most
        most = max(most, len(bot.harness.live) + 1)

    bot.harness.prepare = prepare
    bot.harness.opening_s = 0.5
    rooms = [f"thr_{number}" for number in range(60)]
    async with bot_in_room(bot):
        for room in rooms:
            bot.log.grant(room)
        for room in rooms:
            bot.log.say(room, "hi")
        for room in rooms:
            await bot.until_finished(1, room)
        assert most <= 8
        assert len(bot.harness.live) <= 8

        bot.log.say(rooms[0], "again")
        await bot.until_finished(2, rooms[0])
        assert bot.log.text(rooms[0]) == "echo: hiecho: again"
        await trio.sleep(700)
        assert bot.harness.live == []


async def test_who_waits_is_told_and_who_asks_a_person_holds_nobody_up(
    autojump_clock: MockClock,
) -> None:
    """Field case 10.6: the visible waiting state."""
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, max_live=1, max_processes=3)
    bot.harness.prepare = quiet
    async with bot_in_room(bot):
        bot.log.grant("thr_b")
        bot.log.say("thr_a", "one")
        await trio.testing.wait_all_tasks_blocked(0.01)
        bot.log.say("thr_b", "two")
        await trio.sleep(2)
        assert [session.thread_id for session in bot.harness.live] == ["thr_a"]
        assert "data-notice" in bot.log.shown("thr_b")

        asked = PermissionAsked(tool_call_id="c1", tool_name="Bash", input={})
        bot.harness.of("thr_a").say(asked)
        await trio.sleep(1)
        assert [session.thread_id for session in bot.harness.live] == ["thr_a", "thr_b"]
        bot.harness.of("thr_b").end()
        bot.harness.of("thr_a").end()
        await bot.until_finished(1, "thr_b")
        await bot.until_finished(1, "thr_a")
