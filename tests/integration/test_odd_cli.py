"""A CLI that resumes oddly, in a whole bot: a real process on a log in memory."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio

from actors.events import DataNotice, PartPayload
from actors.thread_scope import Policy
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.settings import ClaudeSettings
from tests.kit.bot import ROOM, Bot
from tests.kit.claude_env import bare_environment, fake_cli, hermetic_env, place
from tests.kit.fakes import BOT
from tests.kit.processes import assert_none_left, descendants

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")

REST_S = 0.3
Odd = Callable[..., AbstractAsyncContextManager[Bot]]


@pytest.fixture
def odd(place: Path) -> Odd:
    """Run a bot whose CLI has these faults, and whose sessions rest for a moment only."""
    (place / "work").mkdir()

    @asynccontextmanager
    async def run(**faults: object) -> AsyncIterator[Bot]:
        bot = Bot()
        settings = ClaudeSettings(
            cwd=place / "work",
            state_dir=place / "state",
            cli_path=fake_cli(place / "bin", **faults),
            env=hermetic_env(place, "http://127.0.0.1:9"),
            use_login=False,
        )
        bot.harness = ClaudeHarness(settings)  # type: ignore[assignment]  # the real one
        bot.policy = Policy(own_principal_id=BOT, idle_s=REST_S)
        bot.log.grant(ROOM)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(bot.run)
                yield bot
                nursery.cancel_scope.cancel()
        await assert_none_left(descendants(os.getpid()))

    return run


async def ask(bot: Bot, text: str) -> list[str]:
    """Say something; return the notices that come with the answer, and how it ends."""
    first = len(bot.log.own(ROOM))
    done = len(bot.finished())
    bot.log.say(ROOM, text)
    await bot.log.until(lambda: len(bot.finished()) > done)
    answer = bot.log.own(ROOM)[first:]
    chunks = [payload.chunk for payload in answer if isinstance(payload, PartPayload)]
    notices = [chunk.data.code for chunk in chunks if isinstance(chunk, DataNotice)]
    return [*notices, bot.finished()[-1]]


async def rested(bot: Bot) -> None:
    """Return when no process of the bot's is left; the next message resumes the session."""
    while descendants(os.getpid()):  # noqa: ASYNC110  # nobody tells us
        await trio.sleep(0.02)
    assert bot.journal.session_id(ROOM) is not None


async def test_a_cli_that_resumes_under_another_id_is_asked_anew_with_the_history(odd: Odd) -> None:
    """Field case 7.5: one notice, the new id in the old one's place, and no loop."""
    async with odd(other_id=True) as bot:
        assert await ask(bot, "the word is swordfish") == ["completed"]
        old = bot.journal.sessions[ROOM]
        await rested(bot)
        assert await ask(bot, "what was it?") == ["session_lost", "completed"]

        assert "> the word is swordfish" in bot.log.text(ROOM)
        assert bot.log.text(ROOM).count("what was it?") == 1
        [(retired, why)] = bot.journal.retired[ROOM]
        assert retired == old
        assert old in why
        assert bot.journal.sessions[ROOM] != old
        assert await ask(bot, "and now?") == ["completed"]


async def test_a_resumed_session_that_is_poisoned_gives_way_to_one_that_works(odd: Odd) -> None:
    """Field case 7.6: each message fails alike, until the second failure; then the next works."""
    async with odd(poisoned=400) as bot:
        assert await ask(bot, "the word is swordfish") == ["completed"]
        old = bot.journal.sessions[ROOM]
        await rested(bot)
        assert await ask(bot, "one") == ["bad_request", "failed"]
        await rested(bot)
        assert await ask(bot, "two") == ["session_given_up", "bad_request", "failed"]
        assert await ask(bot, "three") == ["completed"]

        assert "> the word is swordfish" in bot.log.text(ROOM)
        assert [session_id for session_id, _ in bot.journal.retired[ROOM]] == [old]
        assert bot.journal.sessions[ROOM] != old


@pytest.mark.parametrize("status", [401, 429, 529])
async def test_what_is_not_the_sessions_fault_keeps_it(odd: Odd, status: int) -> None:
    """Field case 7.6: no login, a limit, an overload."""
    async with odd(poisoned=status) as bot:
        await ask(bot, "hello")
        old = bot.journal.sessions[ROOM]
        await rested(bot)
        for number in range(3):
            assert (await ask(bot, f"number {number}"))[-1] == "failed"

        assert bot.journal.sessions[ROOM] == old
        assert bot.journal.retired == {}
