"""What a thread costs: counted over sessions and lives, said if asked for, and an end to it."""

import logging
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from actors.events import DataNotice, DataUsage
from actors.thread_scope import Policy
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import BOT, FakeSession


def costing(bot: Bot, cost_usd: float, **policy: Any) -> Bot:  # noqa: ANN401  # of a Policy
    def prepare(session: FakeSession) -> None:
        session.costs_usd = cost_usd

    bot.harness.prepare = prepare
    bot.policy = Policy(own_principal_id=BOT, **policy)
    return bot


def chunks(bot: Bot, kind: type[Any]) -> list[Any]:
    found = (getattr(payload, "chunk", None) for payload in bot.log.own(ROOM))
    return [chunk.data for chunk in found if isinstance(chunk, kind)]


async def test_a_thread_that_cost_what_it_may_is_answered_with_a_notice_and_not_by_the_model(
    autojump_clock: MockClock,
) -> None:
    bot = costing(Bot(), 0.75, budget_usd=2.0)
    async with bot_in_room(bot):
        for number in range(1, 6):
            bot.log.say(ROOM, f"message {number}")
            await bot.until_finished(number)
        prompts = [text for session in bot.harness.sessions for _, text in session.prompts]

        assert prompts == ["message 1", "message 2", "message 3"]
        assert bot.finished() == ["completed"] * 3 + ["failed"] * 2
        notice = chunks(bot, DataNotice)[-1]
        assert (notice.level, notice.code) == ("error", "thread_budget")
        assert notice.text.startswith(
            "This thread has cost 2.25 US dollars and may cost 2.00. The agent is not asked"
        )


async def test_the_next_life_of_a_bot_knows_what_was_spent(autojump_clock: MockClock) -> None:
    """And a session is told how much is left, so that a single turn cannot go far beyond it."""
    bot = costing(Bot(), 0.75, budget_usd=2.0)
    async with bot_in_room(bot):
        bot.log.say(ROOM, "one")
        await bot.until_finished(1)
    after = costing(Bot(), 0.75, budget_usd=2.0)
    after.log, after.journal = bot.log, bot.journal
    async with bot_in_room(after):
        after.log.say(ROOM, "two")
        await after.until_finished(2)

    assert bot.harness.budgets == [2.0]
    assert after.harness.budgets == [1.25]
    assert after.journal.spent == {ROOM: 1.5}


async def test_a_turn_that_the_budget_cut_says_so_of_the_thread(autojump_clock: MockClock) -> None:
    bot = costing(Bot(), 3.0, budget_usd=2.0)
    async with bot_in_room(bot):
        bot.harness.prepare = lambda session: setattr(session, "echoes", False)
        bot.log.say(ROOM, "one")
        await trio.testing.wait_all_tasks_blocked()
        session = bot.harness.of(ROOM)
        session.costs_usd = 3.0
        session.end("failed", code="budget")
        await bot.until_finished(1)

    (notice,) = chunks(bot, DataNotice)
    assert notice.code == "thread_budget"
    assert "has cost 3.00 US dollars and may cost 2.00" in notice.text


@pytest.mark.parametrize("is_shown", [True, False])
async def test_what_a_turn_used_is_on_the_thread_if_asked_for_and_always_in_the_log(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, is_shown: bool
) -> None:
    bot = costing(Bot(), 0.5, shows_usage=is_shown)
    with caplog.at_level(logging.INFO, logger="actors.spending"):
        async with bot_in_room(bot):
            bot.log.say(ROOM, "words that nobody logs")
            await bot.until_finished(1)

    used = chunks(bot, DataUsage)
    assert [(one.model, one.cost_usd) for one in used] == ([("fake", 0.5)] if is_shown else [])
    assert bot.log.shown(ROOM)[-1] == "completed"
    (line,) = (record for record in caplog.records if record.name == "actors.spending")
    assert (line.getMessage(), line.cost_usd, line.thread_id) == ("turn used", 0.5, ROOM)  # type: ignore[attr-defined]  # extra
    assert "nobody" not in caplog.text
