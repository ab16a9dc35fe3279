"""A census counts what is held, and of what is over it finds nothing."""

import trio
import trio.testing
from trio.testing import MockClock

from actors.census import Census, total
from actors.events import ApprovalGiven
from actors.harness import PermissionAsked, ToolCalled
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession


def quiet(session: FakeSession) -> None:
    session.echoes = False


async def still() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


def test_a_sum_counts_each_field_by_itself() -> None:
    parts = [Census(threads=1, runs=1), Census(threads=1, events=3)]

    assert total(parts) == Census(threads=2, runs=1, events=3)
    assert total([]) == Census()


async def test_what_is_in_hand_is_counted_and_nothing_of_a_finished_run(
    autojump_clock: MockClock,
) -> None:
    """Field case 14.4: no registry keeps entries of finished runs."""
    async with bot_in_room() as bot:
        bot.harness.prepare = quiet
        await still()
        assert bot.root.statistics() == Census(threads=1)
        bot.log.say(ROOM, "one")
        await still()
        bot.log.say(ROOM, "two")
        session, call = bot.harness.of(ROOM), {"tool_call_id": "c1", "tool_name": "B", "input": {}}
        session.say(ToolCalled(**call), PermissionAsked(**call))  # type: ignore[arg-type]
        await still()
        counted = bot.root.statistics()
        assert counted.keys > 0
        assert (counted.runs, counted.messages, counted.calls, counted.sessions) == (1, 1, 1, 1)

        run = next(e.run_id for e in bot.log.threads[ROOM] if e.principal_id == BOT)
        for who, role in ((ADA, "owner"), ("user-ben", "commenter")):
            allowed = ApprovalGiven(tool_call_id="c1", decision="allow")
            bot.log.add(ROOM, who, allowed, run_id=run, role=role)
        session.end()
        await still()
        bot.harness.of(ROOM).end()
        await bot.until_finished(2)
        await still()

        assert bot.root.statistics() == Census(threads=1, sessions=1)
        await trio.sleep(Policy(own_principal_id=BOT).idle_s + 1)
        assert bot.root.statistics() == Census(threads=1)
        bot.log.revoke(ROOM)
        await still()
        assert bot.root.statistics() == Census()


async def test_who_waits_for_a_place_is_counted(autojump_clock: MockClock) -> None:
    bot = Bot()
    bot.policy = Policy(own_principal_id=BOT, max_live=1)
    async with bot_in_room(bot):
        bot.harness.prepare = quiet
        bot.log.grant("thr_b")
        for thread in (ROOM, "thr_b"):
            bot.log.say(thread, "hello")
            await still()

        assert (bot.root.statistics().sessions, bot.root.statistics().waiting) == (1, 1)
