"""However a session is ended and begun, a thread never has two processes: real ones, on fakes."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import trio

from actors.events import InterruptRequested, Unknown
from actors.thread_scope import Policy
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.settings import ClaudeSettings
from tests.kit.bot import ROOM, Bot
from tests.kit.claude_env import ROOT, bare_environment, hermetic_env, place
from tests.kit.fakes import ADA, BOT
from tests.kit.processes import assert_none_left, descendants

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")

CYCLES = 15
REST_S = 0.15
ANSWER_S = 5.0


def lone_cli(folder: Path) -> Path:
    """Return a fake CLI that holds a lock while it lives, and writes down how it was called.

    It takes a moment to go. The lock goes with it, however that ends: who finds it held has met
    another one.
    """
    folder.mkdir()
    program = folder / "claude"
    program.write_text(
        "#!/bin/sh\n"
        f"exec 9>>'{folder}/lock'\n"
        f"flock -n 9 || echo met >> '{folder}/met'\n"
        f"echo \"$@\" >> '{folder}/calls'\n"
        f"PYTHONPATH='{ROOT}' '{sys.executable}' -m tests.kit.fake_cli \"$@\"\n"
        "sleep 0.15\n"
    )
    program.chmod(0o755)
    return program


class Trouble:
    """What ends a session or a turn, each at any moment."""

    def __init__(self, bot: Bot, random: Random) -> None:
        self._bot, self._random = bot, random

    async def crash(self) -> None:
        self._signal(signal.SIGKILL)

    async def end(self) -> None:
        self._signal(signal.SIGTERM)

    async def evict(self) -> None:
        """Let it rest until it is closed; the message may come in the middle of that."""
        await trio.sleep(REST_S)

    async def grant_anew(self) -> None:
        log = self._bot.log
        log.revoke(ROOM)
        log.grant(ROOM, joined_seq=log.add(ROOM, ADA, Unknown()).seq)

    async def interrupt(self) -> None:
        runs = [event.run_id for event in self._bot.log.threads[ROOM] if event.principal_id == BOT]
        self._bot.log.add(ROOM, ADA, InterruptRequested(), run_id=runs[-1], role="owner")

    def _signal(self, number: signal.Signals) -> None:
        for process in descendants(os.getpid()):
            if "fake_cli" in process.argv:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, number)

    def any(self) -> Callable[[], Awaitable[None]]:
        kinds = [self.crash, self.crash, self.end, self.evict, self.grant_anew, self.interrupt]
        return self._random.choice(kinds)

    async def soon(self, act: Callable[[], Awaitable[None]]) -> None:
        await trio.sleep(self._random.uniform(0, 0.3))
        await act()


async def still_answers(bot: Bot, text: str) -> None:
    """Return once a message is answered with its own text.

    It is sent again when that was cut, or when the bot was taken off the thread in between: what
    was said before it came back is not for it.
    """
    while f"echo: {text}" not in bot.log.text(ROOM):
        done = len(bot.finished())
        bot.log.say(ROOM, text)
        with trio.move_on_after(ANSWER_S):
            await bot.log.until(lambda done=done: len(bot.finished()) > done)  # type: ignore[misc]


@pytest.mark.parametrize("seed", [1])
async def test_never_two_processes_of_one_thread(seed: int, place: Path) -> None:
    """Field case 10.9: 15 cycles of evict, message, crash, resume, with overlapping triggers."""
    cli, bot = lone_cli(place / "bin"), Bot()
    (place / "work").mkdir()
    settings = ClaudeSettings(
        cwd=place / "work",
        state_dir=place / "state",
        cli_path=cli,
        env=hermetic_env(place, "http://127.0.0.1:9"),
        use_login=False,
    )
    bot.harness = ClaudeHarness(settings)  # type: ignore[assignment]  # the real one
    bot.policy = Policy(own_principal_id=BOT, idle_s=REST_S, cooperative_s=1.0, drain_s=1.0)
    trouble = Trouble(bot, Random(seed))
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            bot.log.grant(ROOM)
            await nursery.start(bot.run)
            await still_answers(bot, "hello")
            for number in range(CYCLES):
                async with trio.open_nursery() as overlapping:
                    for _ in range(3):
                        overlapping.start_soon(trouble.soon, trouble.any())
                    overlapping.start_soon(still_answers, bot, f"number {number}")
            nursery.cancel_scope.cancel()
    await assert_none_left(descendants(os.getpid()))
    calls = (place / "bin" / "calls").read_text().splitlines()
    resumed = [call for call in calls if "--resume" in call]

    assert not (place / "bin" / "met").exists()
    assert len(resumed) >= CYCLES // 3
    assert len(calls) - len(resumed) == 1, "one conversation, from the first message to the last"
