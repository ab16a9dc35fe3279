"""What a thousand joined, idle threads cost in memory and time."""

import gc
import time
import uuid
from pathlib import Path

import trio

from actors.root import Root
from actors.thread_scope import Outside, Policy
from scuba import wire
from scuba.bubble.http import BubbleClient
from scuba.bubble.log import BubbleLog
from scuba.journal import JOURNAL_NAME, open_journal
from tests.bench.measure import Figure, rss_bytes
from tests.kit.fake_server import fake_server
from tests.kit.fakes import FakeHarness

THREADS = 1_000


async def figures(place: Path) -> list[Figure]:
    """Join a thousand quiet threads on a real server and count."""
    async with fake_server() as server:
        ids = [await server.make_thread(server.bot) for _ in range(THREADS)]
        client = BubbleClient(server.url, server.bot.token)
        async with (
            client,
            open_journal(place / JOURNAL_NAME) as journal,
            trio.open_nursery() as nursery,
        ):
            log = BubbleLog(client, instance_id=uuid.uuid4().hex, principal_id=server.bot.id)
            await nursery.start(log.run)
            gc.collect()
            before, began = rss_bytes(), time.perf_counter()
            policy = Policy(own_principal_id=server.bot.id)
            root = Root(Outside(log, FakeHarness(), journal, policy, lambda: uuid.uuid4().hex))
            stop = trio.Event()
            nursery.start_soon(root.run, stop)
            while log.statistics().subscriptions < THREADS:  # noqa: ASYNC110  # only counted
                await trio.sleep(0.005)
            await server.say(ids[-1], "are you there?")
            await server.wait_for(ids[-1], lambda events: _finished(events, server.bot.id))
            took = time.perf_counter() - began
            gc.collect()
            grown = rss_bytes() - before
            stop.set()
            nursery.cancel_scope.cancel()
    per_thread = grown / THREADS
    return [
        Figure(f"{THREADS:,} threads joined, and the last one answers", f"{took:.2f} s", "", "5 s"),
        Figure(
            "memory of a joined idle thread (bot and in-process server together)",
            f"{per_thread / 1000:.1f} kB",
            "",
            "50 kB",
        ),
    ]


def _finished(events: list[wire.Envelope], bot_id: str) -> bool:
    return any(e.type == "run_finished" and e.principal_id == bot_id for e in events)
