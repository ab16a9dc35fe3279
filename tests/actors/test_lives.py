"""A thread's lives: granted, revoked, crashed, parked, stopped; each run ends, nobody is forgotten."""

import pytest
from trio.testing import MockClock

from actors.conversation import Conversation
from actors.events import RunFinished, Unknown
from actors.messages import ThreadInbox
from tests.kit.bot import ROOM, Bot, bot_in_room
from tests.kit.fakes import ADA, BOT, FakeSession


def quiet(session: FakeSession) -> None:
    session.echoes = False


def open_runs(bot: Bot) -> list[str | None]:
    """Return the bot's runs that are not finished, as the server tells them with the grant."""
    own = [event for event in bot.log.threads[ROOM] if event.principal_id == BOT]
    ended = {event.run_id for event in own if isinstance(event.body, RunFinished)}
    return list(dict.fromkeys(event.run_id for event in own if event.run_id not in ended))


def crash_on(monkeypatch: pytest.MonkeyPatch, kind: type[ThreadInbox], times: int) -> list[object]:
    """Let a conversation crash on the first `times` messages of a kind; return those."""
    step, met = Conversation.step, list[object]()

    def failing(self: Conversation, message: ThreadInbox) -> object:
        if isinstance(message, kind) and len(met) < times:
            met.append(message)
            raise ValueError("a bug")
        return step(self, message)

    monkeypatch.setattr(Conversation, "step", failing)
    return met


@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_thread_granted_again_at_once_never_has_two_sessions(
    rounds: int, autojump_clock: MockClock
) -> None:
    """Field case 10.9: two processes on one session would fork its history."""
    async with bot_in_room() as bot:
        bot.harness.closing_s = 5.0
        bot.log.say(ROOM, "one")
        await bot.until_finished(1)
        for _ in range(rounds):
            bot.log.revoke(ROOM)
            bot.log.grant(ROOM, joined_seq=bot.log.add(ROOM, ADA, Unknown()).seq)
        most: list[int] = []
        bot.harness.prepare = lambda _: most.append(len(bot.harness.live))
        bot.log.say(ROOM, "two")
        await bot.until_finished(2)

        assert most == [0]
        assert bot.finished() == ["completed", "completed"]
