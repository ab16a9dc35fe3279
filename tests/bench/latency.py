"""What scuba adds between a frame that leaves the CLI and its event at a subscriber.

Bot, server, subscriber and fake CLI run at once; the fake CLI writes the time of day into each
delta. All clocks are this machine's.
"""

import json
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from actors.ports import Harness
from actors.root import Root
from actors.thread_scope import Outside, Policy
from scuba import wire
from scuba.bubble.http import BubbleClient
from scuba.bubble.log import BubbleLog
from scuba.bubble.tail import follow
from scuba.harness.claude.frames import StreamEvent, decode
from scuba.harness.claude.harness import ClaudeHarness
from scuba.journal import JOURNAL_NAME, open_journal
from scuba.server import ServerConfig, open_store
from tests.bench.measure import Figure, ms
from tests.bench.plain import plain_cli
from tests.bench.settings import fake_settings
from tests.kit.fake_server import FakeServer

STAMPS, GAP_S = 100, 0.13
"""Slower than the merge window, so that what is measured is the path and not the wait."""
FAST_GAP_S = 0.02
"""Faster than the merge window: the wait for it is in the figure."""


class Bench:
    """A bot on a real server with its store on disk, and a subscriber."""

    def __init__(self, server: FakeServer, thread_id: str) -> None:
        self.server, self.thread_id = server, thread_id
        self.client = BubbleClient(server.url, server.user.token)


@asynccontextmanager
async def running_bot(place: Path, harness: Harness) -> AsyncGenerator[Bench]:
    """Run it all in this process, the server with its durable store as `scuba` has it."""
    async with open_store(place / "bubble.db") as store, trio.open_nursery() as nursery:
        server = FakeServer(store, ServerConfig(), nursery)
        server.user = await server.make_user(f"user-{uuid.uuid4().hex[:6]}")
        server.bot = await server.make_bot(f"bot-{uuid.uuid4().hex[:6]}")
        await server.come_up()
        thread_id = await server.make_thread(server.bot)
        bot = BubbleClient(server.url, server.bot.token)
        bench = Bench(server, thread_id)
        async with bot, bench.client, open_journal(place / JOURNAL_NAME) as journal:
            log = BubbleLog(bot, instance_id="bench", principal_id=server.bot.id)
            await nursery.start(log.run)
            policy = Policy(own_principal_id=server.bot.id)
            root = Root(Outside(log, harness, journal, policy, lambda: str(uuid.uuid4())))
            stop = trio.Event()
            await nursery.start(root.run, stop)
            try:
                yield bench
            finally:
                stop.set()
                with trio.move_on_after(10, shield=True):
                    await trio.sleep(0.5)
                nursery.cancel_scope.cancel()


async def figures(place: Path) -> list[Figure]:
    """Measure the path alone, and with the merge window in it."""
    floor = await _plain(place)
    async with running_bot(place, ClaudeHarness(fake_settings(place))) as bench:
        first, later = await _added(bench, STAMPS, GAP_S)
        _, merged = await _added(bench, STAMPS * 3, FAST_GAP_S)
    return [
        Figure("frame leaves the CLI → event at a subscriber", ms(later), ms(floor), "≤ 8 ms"),
        Figure("… the first delta of a turn", ms(first), "", "never held back"),
        Figure("… deltas every 20 ms, merge window included", ms(merged), "", "≤ 100 ms more"),
    ]


async def _plain(place: Path) -> list[float]:
    settings = fake_settings(place)
    found: list[float] = []
    command = [str(settings.cli_path), "--include-partial-messages"]
    async with plain_cli(command, settings.env, str(settings.cwd)) as cli:
        await cli.initialize()
        await cli.prompt(json.dumps([{"stamps": STAMPS, "gap_s": 0.02}]))
        while len(found) < STAMPS:
            for line in await cli.chunk():
                now, frame = time.time(), decode(line)
                if isinstance(frame, StreamEvent) and frame.event.delta and frame.event.delta.text:
                    found.append(now - float(frame.event.delta.text))
    return found


async def _added(bench: Bench, stamps: int, gap_s: float) -> tuple[list[float], list[float]]:
    """Return the delays of the first delta and of the later ones of one turn."""
    delays: list[list[float]] = []
    head = (await bench.client.thread(bench.thread_id)).thread.last_seq
    with trio.fail_after(60):
        async with follow(bench.client, bench.thread_id, head) as envelopes:
            text = json.dumps([{"stamps": stamps, "gap_s": gap_s}])
            await bench.server.say(bench.thread_id, text)
            async for envelope in envelopes:
                now = time.time()
                if envelope.principal_id != bench.server.bot.id:
                    continue
                if envelope.type == "run_finished":
                    break
                if texts := _text(envelope).split():
                    delays.append([now - float(stamp) for stamp in texts])
    return delays[0][:1], [delay for group in delays[1:] for delay in group]


def _text(envelope: wire.Envelope) -> str:
    if envelope.type != "message_part":
        return ""
    chunk = msgspec.json.decode(envelope.payload)["chunk"]
    return str(chunk.get("delta", "")) if chunk["type"] == "text-delta" else ""
