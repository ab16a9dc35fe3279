"""A whole bot of actors on fakes, for tests with the mock clock."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

import trio
import trio.testing

from actors.root import Root
from actors.thread_scope import Outside, Policy
from tests.kit.fakes import BOT, FakeHarness, FakeJournal, FakeLog

ROOM = "thr_a"
LIVES = count(1)


class Bot:
    """What a test holds of a running bot."""

    def __init__(self) -> None:
        self.log, self.harness, self.journal = FakeLog(), FakeHarness(), FakeJournal()
        self.stop, self.stopped = trio.Event(), trio.Event()
        self.policy = Policy(own_principal_id=BOT)
        self.root: Root
        life, numbers = next(LIVES), count(1)
        self.new_id = lambda: f"{life}-{next(numbers)}"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        outside = Outside(self.log, self.harness, self.journal, self.policy, self.new_id)
        self.root = Root(outside)
        await self.root.run(self.stop, task_status=task_status)
        self.stopped.set()

    def finished(self, thread_id: str = ROOM) -> list[str]:
        """Return the status of every run that the bot finished on a thread."""
        ends = ("completed", "interrupted", "failed")
        return [what for what in self.log.shown(thread_id) if what in ends]

    async def until_finished(self, runs: int, thread_id: str = ROOM) -> None:
        """Return once so many runs are finished and settled."""
        await self.log.until(lambda: len(self.finished(thread_id)) >= runs)
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def bot_in_room(bot: Bot | None = None, **granted: object) -> AsyncGenerator[Bot]:
    """Run a bot that takes part in `ROOM`, as `granted` says; cancelled when left."""
    bot = bot or Bot()
    with trio.fail_after(100_000):
        async with trio.open_nursery() as nursery:
            bot.log.grant(ROOM, **granted)
            await nursery.start(bot.run)
            yield bot
            nursery.cancel_scope.cancel()
