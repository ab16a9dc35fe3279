"""Thousands of turns, and nothing is left of them: `just soak 100000` is a day's work."""

import faulthandler
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio

from tests.chaos.bots.world import A_CLI
from tests.kit.apart import Apart, apart
from tests.kit.claude_env import fake_cli
from tests.kit.processes import descendants
from tests.kit.program import Program, Start, private_place
from tests.kit.watch import at_rest, census, cpu_s, files, hurried, rss_bytes
from tests.soak.measure import BOT, SERVER, Held, busy, grown, table
from tests.soak.people import Crowd, open_ear

TURNS = int(os.environ.get("SOAK_TURNS", "3000"))
SAMPLES = 30
DROP_EVERY, KILL_EVERY = 50, 150
"""Turns between two cuts of all connections, and two killed CLIs."""
PEOPLE, TALKING = 6, 4
SESSIONS = {"maxLive": 3, "maxProcesses": 4, "idleHibernate": 2}
"""Too few for all who talk: some wait, and sessions end to make room, or for lack of work."""
SPARE_FILES = 2
"""Connections for calls: how many a turn needs at once is chance."""


class Soak:
    """A bot at work, what is done to it, and how big it is meanwhile."""

    def __init__(self, parts: Apart, crowd: Crowd, bot: Program) -> None:
        self.parts, self.crowd, self.bot = parts, crowd, bot
        self.of_bot: list[Held] = []
        self.of_server: list[Held] = []
        self.killed = 0
        self.took_s = 0.0

    async def run(self) -> None:
        """Have all turns taken."""
        began = time.monotonic()
        async with trio.open_nursery() as others:
            others.start_soon(self._sample)
            others.start_soon(self._drop)
            others.start_soon(self._kill)
            async with trio.open_nursery() as people:
                for _ in range(PEOPLE):
                    people.start_soon(self.crowd.person)
            others.cancel_scope.cancel()
        self.took_s = time.monotonic() - began

    async def _sample(self) -> None:
        for number in range(SAMPLES):
            await self.crowd.until_taken(number * self.crowd.turns // SAMPLES)
            self.of_bot.append(await sample(self.bot))
            self.of_server.append(await sample(self.parts.server))
            self.parts.network.requests.clear()

    async def _drop(self) -> None:
        for taken in range(DROP_EVERY, self.crowd.turns, DROP_EVERY):
            await self.crowd.until_taken(taken)
            self.parts.network.drop()

    async def _kill(self) -> None:
        for taken in range(KILL_EVERY, self.crowd.turns, KILL_EVERY):
            await self.crowd.until_taken(taken)
            for cli in [one for one in descendants(self.bot.pid) if A_CLI in one.argv][:1]:
                cli.kill()
                self.killed += 1

    def told(self) -> str:
        """Return the figures, for docs/performance.md."""
        names, took_s = list(BOT), self.took_s
        return "\n".join(
            [
                f"{self.crowd.taken:,} turns in {took_s:.0f} s, {self.crowd.taken / took_s:.1f}/s; "
                f"{dict(self.crowd.ended)}, {self.crowd.rooms} threads, {self.killed} CLIs killed",
                f"processor: bot {cpu_s(self.bot):.0f} s, server {cpu_s(self.parts.server):.0f} s, "
                f"people {time.process_time():.0f} s",
                table("bot", self.of_bot, names),
                table("server", self.of_server, names),
            ]
        )


async def sample(program: Program) -> Held:
    """Return how big a program is. What the kernel says is asked first: a census tidies up."""
    outside = {"files": files(program), "rssBytes": rss_bytes(program)}
    return {**await census(program), **outside}


@asynccontextmanager
async def opened(start: Start, turns: int) -> AsyncIterator[Soak]:
    """Start server and bot; the people wait for the word."""
    with private_place() as place:
        async with apart(start, place) as parts:
            config = parts.config(
                claude={"cliPath": str(fake_cli(place / "cli"))},
                sessions=SESSIONS,
                approvals={"expirySeconds": 3600},
            )
            bot = parts.start_bot(config, PYTHONPATH=hurried(place))
            await bot.says('"ready"')
            async with open_ear(parts.url, parts.local["userToken"]) as ear:
                ledger = place / "work" / "ledger"
                crowd = Crowd(parts.me, parts.bot_id, ear, Random(turns), ledger, turns, TALKING)
                yield Soak(parts, crowd, bot)


@pytest.mark.slow
async def test_a_bot_is_as_small_after_many_turns_as_after_few(start: Start) -> None:
    """Field case 14.4: a plateau of memory, files and tasks; no registry keeps finished runs."""
    faulthandler.cancel_dump_traceback_later()  # as long as it takes: each turn has its deadline
    async with opened(start, TURNS) as soak:
        before = await at_rest(soak.parts, soak.bot)
        await soak.run()
        after = await at_rest(soak.parts, soak.bot)
        print(f"{soak.told()}\nat rest before: {before}\nat rest after: {after}")  # noqa: T201

        assert not soak.crowd.faults
        assert not grown(soak.of_bot, BOT)
        assert not grown(soak.of_server, SERVER)
        assert not busy(after), after
        assert (after["threads"], after["tasks"]) == (before["threads"], before["tasks"])
        assert after["files"] <= before["files"] + SPARE_FILES
        assert_all_was_in_it(soak, after)
        stopped = await soak.bot.stop()
        assert (stopped.code, stopped.left) == (0, frozenset())


def assert_all_was_in_it(soak: Soak, after: Held) -> None:
    ended, turns = soak.crowd.ended, soak.crowd.turns
    assert soak.crowd.taken == turns
    assert ended["completed"] > turns * 0.9
    assert ended["interrupted"] > turns * 0.01
    assert ended["failed"] > turns * 0.01
    assert after["reconnects"] > turns / DROP_EVERY * 0.8
    assert soak.killed > turns / KILL_EVERY * 0.5
