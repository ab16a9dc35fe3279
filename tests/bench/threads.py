"""What a thousand joined, idle threads cost a bot in memory and time. The server is elsewhere."""

import gc
import time
import uuid
from pathlib import Path

import msgspec
import trio

from actors.root import Root
from actors.thread_scope import Outside, Policy
from scuba import wire
from scuba.bubble.http import BubbleClient
from scuba.bubble.log import BubbleLog
from scuba.bubble.tail import follow
from scuba.journal import JOURNAL_NAME, open_journal
from tests.bench.measure import Figure, rss_bytes
from tests.bench.serving import Served, served
from tests.kit.fakes import FakeHarness

THREADS = 1_000
HELLO = msgspec.Raw(b'{"chunk": {"type": "text-delta", "id": "t", "delta": "hello"}}')


async def figures(place: Path) -> list[Figure]:
    """Join a thousand quiet threads and count; then talk on the last one."""
    async with (
        served(THREADS) as server,
        BubbleClient(server.url, server.bot_token) as client,
        open_journal(place / JOURNAL_NAME) as journal,
        trio.open_nursery() as nursery,
    ):
        log = BubbleLog(client, instance_id="bench", principal_id=server.bot_id)
        await nursery.start(log.run)
        policy = Policy(own_principal_id=server.bot_id)
        root = Root(Outside(log, FakeHarness(), journal, policy, lambda: uuid.uuid4().hex))
        gc.collect()
        before, began = rss_bytes(), time.perf_counter()
        nursery.start_soon(root.run, trio.Event())
        while log.statistics().subscriptions < THREADS:  # noqa: ASYNC110  # only counted
            await trio.sleep(0.005)
        joined_s = time.perf_counter() - began
        gc.collect()
        grown = rss_bytes() - before
        answered_s = await _answered(server)
        nursery.cancel_scope.cancel()
    return [
        Figure(f"{THREADS:,} quiet threads joined", f"{joined_s:.2f} s", "", "5 s"),
        Figure("… then a message on the last one is answered", f"{answered_s:.2f} s"),
        Figure("memory of a joined idle thread", f"{grown / THREADS / 1000:.1f} kB", "", "50 kB"),
    ]


async def _answered(server: Served) -> float:
    thread_id = server.threads[-1]
    async with BubbleClient(server.url, server.user_token) as user:
        event = wire.NewEvent(
            type="message_part",
            payload=msgspec.Raw(
                msgspec.json.encode({"chunk": {"type": "text-delta", "id": "t", "delta": "hello"}})
            ),
            key="hello",
        )
        began = time.perf_counter()
        await user.append(thread_id, [event])
        with trio.fail_after(60):
            async with follow(user, thread_id, 0) as envelopes:
                async for envelope in envelopes:
                    if envelope.type == "run_finished":
                        return time.perf_counter() - began
    raise AssertionError("the subscription ended")
