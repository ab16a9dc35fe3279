"""A bot, its server, its CLIs and the network between them, and what can be done to each."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import trio

from tests.chaos.bots.people import Room
from tests.kit.apart import Apart, apart
from tests.kit.claude_env import fake_cli
from tests.kit.disk import fill, small_disk
from tests.kit.processes import Process
from tests.kit.program import ROOT, Program, Start

THREADS = 3
DISK = "64m"
PERMANENT = (64, 73, 77, 78)
"""Exit codes after which no supervisor starts it again."""
CLI_S = 120.0
"""Longest wait for a bot to start a CLI: a connection that is half open is noticed after 60 s."""
A_CLI = "stream-json"
"""Stands in the arguments of every CLI, real or fake."""
SKEWED = """
import pathlib, time

def skewed(clock, unit, offset=pathlib.Path(__file__).with_name("offset")):
    return lambda: clock() + int(offset.read_text()) * unit

time.time, time.time_ns = skewed(time.time, 1), skewed(time.time_ns, 10**9)
"""
"""A `sitecustomize` that lets a test turn the wall clock of one Python process."""


class World:
    """Owns nothing: what it breaks belongs to `Apart` and to the bot's `Program`."""

    def __init__(self, apart_: Apart, random: Random, config: Path) -> None:
        self.apart, self.random, self._config = apart_, random, config
        self._clock = apart_.place / "clock"
        self._clock.mkdir()
        (self._clock / "sitecustomize.py").write_text(SKEWED)
        (self._clock / "offset").write_text("0")
        self.rooms: list[Room] = []
        self.done: Counter[str] = Counter()
        self.plan: list[str] = []
        """What was done, in order, for a failing test."""
        self.bot = self._start_bot()

    @property
    def ledger(self) -> list[str]:
        """What the tools wrote when they ran."""
        path = self.apart.place / "work" / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def _start_bot(self) -> Program:
        return self.apart.start_bot(self._config, PYTHONPATH=f"{self._clock}:{ROOT}")

    async def do(self, name: str) -> None:
        """Break something, once."""
        await self._supervise()
        self.plan.append(name)
        await FAULTS[name](self)
        self.done[name] += 1
        await trio.sleep(self.random.uniform(0, 0.25))

    async def calm(self) -> None:
        """Have everything work again; a bot that is gone is started."""
        self.apart.network.clear()
        self.apart.network.accept()
        await self._supervise()

    async def _supervise(self) -> None:
        """Start a bot again that ended by itself, as supervisors do."""
        if not self.bot.running:
            code = await self.bot.ended()
            self.plan.append(f"(the bot ended: {code})")
            assert code not in PERMANENT, self.bot.told()
            self.bot = self._start_bot()

    # --- the bot --------------------------------------------------------------------------------

    async def kill_bot(self) -> None:
        await self._moment()
        await self._replace_bot()
        await self._at_work()

    async def kill_bot_while_it_starts(self) -> None:
        for _ in range(2):
            await trio.sleep(self.random.uniform(0, 1.5))
            await self._replace_bot()

    async def _replace_bot(self) -> None:
        self.bot.send(signal.SIGKILL)
        await self.bot.ended()
        self.bot = self._start_bot()

    async def _at_work(self) -> None:
        """Let the new bot get to work before the next fault, unless it cannot yet."""
        with trio.move_on_after(4):
            while "run started" not in self.bot.stdout:  # noqa: ASYNC110  # nobody tells us
                await trio.sleep(0.05)

    async def restart_bot(self) -> None:
        stopped = await self.bot.stop()
        assert stopped.code == 0, self.bot.told()
        assert not stopped.left, stopped.left
        self.bot = self._start_bot()
        await self._at_work()

    async def freeze_bot(self) -> None:
        await self._frozen([self.bot.pid])

    async def fill_disk(self) -> None:
        """No byte more fits where the bot keeps its state; after a while it does again."""
        filler = self.apart.place / "bot" / "filler"
        if filler.parent.is_mount():  # nobody's own disk is filled: see `small_disk`
            await trio.to_thread.run_sync(fill, filler)
        await trio.sleep(self.random.uniform(0.2, 1.5))
        filler.unlink(missing_ok=True)

    async def turn_clock(self) -> None:
        """The bot's wall clock jumps, forwards or back."""
        seconds = self.random.choice((-86_400, -60, 60, 3_600, 86_400))
        whole = self._clock / "offset.new"
        whole.write_text(str(seconds))
        whole.replace(self._clock / "offset")

    # --- its CLIs -------------------------------------------------------------------------------

    async def kill_cli(self) -> None:
        await self._moment()
        (await self._a_cli()).kill()

    async def freeze_cli(self) -> None:
        await self._frozen([(await self._a_cli()).pid])

    async def _a_cli(self) -> Process:
        """Return one of the bot's CLIs, once it has any: people never stop writing."""
        with trio.fail_after(CLI_S):
            while not (living := [one for one in self.bot.family() if A_CLI in one.argv]):
                await trio.sleep(0.05)
                await self._supervise()
        return self.random.choice(sorted(living, key=lambda one: one.pid))

    # --- the server -----------------------------------------------------------------------------

    async def kill_server(self) -> None:
        await self._moment()
        self.apart.server.send(signal.SIGKILL)
        await self.apart.server.ended()
        await trio.sleep(self.random.uniform(0, 0.5))
        await self.apart.start_server()

    async def freeze_server(self) -> None:
        await self._frozen([self.apart.server.pid])

    # --- the network ----------------------------------------------------------------------------

    async def drop(self) -> None:
        await self._moment()
        self.apart.network.drop()

    async def lose_receipt(self) -> None:
        self.apart.network.swallow("POST .*/events")

    async def answer_badly(self) -> None:
        status = self.random.choice((429, 500, 502, 503))
        headers = {"retry-after": "1"} if status == 429 else {}
        self.apart.network.answer(r"(GET|POST) ", status, headers, times=self.random.randint(1, 3))

    async def cut(self) -> None:
        self.apart.network.cut_after(self.random.randint(1, 5_000))

    async def delay(self) -> None:
        self.apart.network.delay_s = self.random.uniform(0.01, 0.1)
        await trio.sleep(0.5)
        self.apart.network.delay_s = 0

    async def half_open(self) -> None:
        self.apart.network.pause(*self.random.choice(((), ("up",), ("down",))))
        await trio.sleep(self.random.uniform(0.1, 1.5))
        if self.random.random() < 0.5:
            self.apart.network.drop()
        self.apart.network.resume()

    async def refuse(self) -> None:
        self.apart.network.refuse()
        self.apart.network.drop()
        await trio.sleep(self.random.uniform(0.1, 0.8))
        self.apart.network.accept()

    async def _moment(self) -> None:
        await trio.sleep(self.random.uniform(0, 0.4))

    async def _frozen(self, pids: list[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await trio.sleep(self.random.uniform(0.1, 1.2))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


FAULTS: dict[str, Callable[[World], Awaitable[None]]] = {
    "kill the bot": World.kill_bot,
    "kill the bot while it starts": World.kill_bot_while_it_starts,
    "restart the bot": World.restart_bot,
    "freeze the bot": World.freeze_bot,
    "fill the disk": World.fill_disk,
    "turn the clock": World.turn_clock,
    "kill a CLI": World.kill_cli,
    "freeze a CLI": World.freeze_cli,
    "kill the server": World.kill_server,
    "freeze the server": World.freeze_server,
    "drop all connections": World.drop,
    "lose a receipt": World.lose_receipt,
    "answer badly": World.answer_badly,
    "cut an answer": World.cut,
    "delay": World.delay,
    "half open": World.half_open,
    "refuse connections": World.refuse,
}


@asynccontextmanager
async def open_world(
    start: Start, place: Path, random: Random, *, real_cli: bool = False
) -> AsyncIterator[World]:
    """Start a server, a bot on a small disk of its own, and three threads."""
    with small_disk(place / "bot", DISK):
        async with apart(start, place) as parts:
            config = parts.config(
                claude={} if real_cli else {"cliPath": str(fake_cli(place / "cli"))},
                stop={"graceSeconds": 1},
                backlog={"maxReplay": 1000},  # nothing is to be skipped
            )
            world = World(parts, random, config)
            talks = [await parts.me.new_thread(parts.bot_id) for _ in range(THREADS)]
            for number, talk in enumerate(talks):
                seed = random.randrange(2**32)
                world.rooms.append(Room(talk, Random(seed), number * 10_000))
            yield world
