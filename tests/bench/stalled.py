"""What a thousand readers that have stopped reading cost the server while a thread goes on."""

import socket
from pathlib import Path

import trio

from tests.bench.crowd import Member, dialled, text_frame, wait_for
from tests.bench.measure import Figure
from tests.bench.serving import Served, Serving, Wanted, serving
from tests.bench.writers import append_for

READERS = 1_000
EVENTS, BATCH = 50_000, 250
RECEIVE_BYTES = 4_096
"""What the kernel takes for a reader that does not read."""


async def figures(place: Path) -> list[Figure]:
    """Measure the memory of the server with and without such readers, over the same events."""
    alone = await grown(place / "alone.db", 0)
    beside = await grown(place / "beside.db", READERS)
    return [
        Figure(
            f"memory of the server over {EVENTS:,} events beside {READERS:,} stalled readers",
            f"{beside.grown_mb:+.1f} MB, at most {beside.most_mb:.0f} MB in all",
            f"{alone.grown_mb:+.1f} MB without readers",
            "flat",
        ),
        Figure(
            "… appended meanwhile",
            f"{beside.rate:,.0f} events/s",
            f"{alone.rate:,.0f} events/s without readers",
        ),
        Figure(
            "… then the server stops",
            f"{beside.stop_s:.1f} s",
            f"{alone.stop_s:.1f} s without readers",
            "≤ 10 s",
        ),
    ]


class Grown:
    """What a run of events left behind."""

    def __init__(self, grown_mb: float, most_mb: float, rate: float, stop_s: float) -> None:
        self.grown_mb, self.most_mb = grown_mb, most_mb
        self.rate, self.stop_s = rate, stop_s


async def grown(path: Path, readers: int) -> Grown:
    wanted = Wanted(store=f"sqlite:{path}", sockets=readers + 16, write_s=600)
    async with serving(wanted) as server:
        stalled = await trio.to_thread.run_sync(stall, server.facts, readers)
        await settled(server)  # the first events fill what the kernel holds for each
        before = (await server.usage()).rss_bytes
        most, events, began = before, 0, trio.current_time()
        while events < EVENTS:
            rate = await append_for(server.facts, 4, BATCH, 1.0)
            events += int(rate * BATCH)
            most = max(most, (await server.usage()).rss_bytes)
        took = trio.current_time() - began
        after = (await server.usage()).rss_bytes
        stopped = await server.stop()
        for each in stalled:
            each.close()
    return Grown((after - before) / 1e6, most / 1e6, events / took, stopped)


async def settled(server: Serving) -> None:
    await append_for(server.facts, 4, BATCH, 2.0)
    await trio.sleep(1)


def stall(facts: Served, count: int) -> list[socket.socket]:
    """Return sockets that have subscribed and read no more."""
    found: list[socket.socket] = []
    for _ in range(count):
        member = Member(dialled(facts.url, RECEIVE_BYTES))
        member.plain.sendall(text_frame({"type": "client.auth", "token": facts.user_token}))
        wait_for(member, b"server.ready")
        follow = {"type": "client.subscribe", "threadId": facts.threads[0], "after": "head"}
        member.plain.sendall(text_frame(follow))
        wait_for(member, b"server.caught_up")
        found.append(member.plain)
    return found
