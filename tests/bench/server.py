"""What the server takes and hands on: durable appends, and fan-out to many subscribers."""

import itertools
import sqlite3
import time
from pathlib import Path

import msgspec
import trio

from scuba import wire
from scuba.bubble.http import BubbleClient
from scuba.bubble.tail import follow
from scuba.server import ServerConfig, open_store
from scuba.server.config import Rate
from tests.bench.measure import Figure, ms, rate
from tests.kit.fake_server import FakeServer

SECONDS = 3.0
PAYLOAD = msgspec.Raw(
    msgspec.json.encode({"chunk": {"type": "text-delta", "id": "t1", "delta": "x" * 120}})
)
SUBSCRIBERS = 200
FAST = Rate(1_000_000, 1_000_000)


async def figures(place: Path) -> list[Figure]:
    """Measure appends over HTTP beside raw SQLite commits on the same disk."""
    found: list[Figure] = []
    config = ServerConfig(appends=FAST, requests=FAST, sockets_per_principal=SUBSCRIBERS + 16)
    async with open_store(place / "appends.db") as store, trio.open_nursery() as nursery:
        server = FakeServer(store, config, nursery)
        server.user = await server.make_user("user-bench")
        server.bot = await server.make_bot("bot-bench")
        await server.come_up()
        for writers, batch in ((1, 1), (16, 1), (64, 1), (1, 256), (16, 256)):
            requests, events = await _appends(server, writers, batch)
            floor = _raw(place / f"raw-{writers}-{batch}.db", batch)
            found.append(
                Figure(
                    f"durable appends over HTTP, {writers} writers, {batch} events each",
                    f"{rate(requests, SECONDS)} requests, {rate(events, SECONDS)} events",
                    f"{floor:,.0f} events/s, one raw commit a batch",
                )
            )
        found.append(await _fan_out(server))
        nursery.cancel_scope.cancel()
    return found


async def _appends(server: FakeServer, writers: int, batch: int) -> tuple[int, int]:
    thread_id = await server.make_thread(server.bot)
    done, keys = 0, itertools.count()
    end = trio.current_time() + SECONDS

    async def write() -> None:
        nonlocal done
        async with BubbleClient(server.url, server.bot.token) as client:
            run_id = f"run_{next(keys)}_{writers}_{batch}"
            start = wire.NewEvent(type="run_started", run_id=run_id, key=f"{run_id}/s")
            await client.append(thread_id, [start])
            while trio.current_time() < end:
                events = [
                    wire.NewEvent(
                        type="message_part", run_id=run_id, payload=PAYLOAD, key=f"k{next(keys)}"
                    )
                    for _ in range(batch)
                ]
                await client.append(thread_id, events)
                done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(writers):
            nursery.start_soon(write)
    return done, done * batch


def _raw(path: Path, batch: int) -> float:
    """Return events a second that SQLite commits by itself, one transaction a batch."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE events (thread TEXT, seq INTEGER, body TEXT)")
    body, done, end = bytes(PAYLOAD).decode(), 0, time.perf_counter() + 1.0
    while time.perf_counter() < end:
        connection.execute("BEGIN IMMEDIATE")
        rows = [("t", done + number, body) for number in range(batch)]
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
        done += batch
    connection.close()
    return done


async def _fan_out(server: FakeServer) -> Figure:
    """Say one thing, twenty times, to many sockets; how long until the last one has it?"""
    thread_id = await server.make_thread()
    seen: dict[int, int] = {}
    complete: dict[int, trio.Event] = {}

    async def listen() -> None:
        async with (
            BubbleClient(server.url, server.user.token) as client,
            follow(client, thread_id, 0) as envelopes,
        ):
            async for envelope in envelopes:
                seen[envelope.seq] = seen.get(envelope.seq, 0) + 1
                if seen[envelope.seq] == SUBSCRIBERS and envelope.seq in complete:
                    complete[envelope.seq].set()

    took: list[float] = []
    async with trio.open_nursery() as nursery:
        for _ in range(SUBSCRIBERS):
            nursery.start_soon(listen)
        with trio.fail_after(60):
            while seen.get(2, 0) < SUBSCRIBERS:  # noqa: ASYNC110  # counts, not an event
                await trio.sleep(0.05)
            for _ in range(20):
                head = (await server.events(thread_id))[-1].seq
                event = complete[head + 3] = trio.Event()
                began = time.perf_counter()
                await server.say(thread_id, "hello all")
                await event.wait()
                took.append(time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    what = f"one message to {SUBSCRIBERS} sockets, until the last has it (clients in this process)"
    return Figure(what, ms(took))
