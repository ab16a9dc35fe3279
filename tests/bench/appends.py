"""Durable appends a second, over HTTP and at the store, beside what the engine itself commits."""

import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psycopg
import trio

from scuba import wire
from scuba.server import SYSTEM, Caller, Store, open_store
from scuba.server.store import open_database
from tests.bench.measure import Figure
from tests.bench.serving import Wanted, joint_thread, make, serving
from tests.bench.writers import DELTA, append_for
from tests.kit.postgres import cluster

SECONDS = 1.5
FLOOR_S = 1.0
LOADS = tuple(itertools.product((1, 64, 256), (1, 32, 256)))
"""Writers at once, and events in a batch."""
GROUP = 256
"""Most writes that the store commits together (16.1)."""

_KEYS = itertools.count()
_COLUMNS = "thread_id, seq, id, ts, principal_id, type, run_id, key, payload"
Row = tuple[object, ...]


async def figures(place: Path) -> list[Figure]:
    """Measure SQLite, then PostgreSQL with its own durable settings."""
    found = await store_figures("SQLite", str(place / "store.db"), sqlite_floor(place))
    with (
        cluster(durable=True) as postgres,
        postgres.database() as url,
        postgres.database() as other,
    ):
        return found + await store_figures("PostgreSQL", url, postgres_floor(other))


async def figures_over_http(place: Path) -> list[Figure]:
    """Measure the same through a server."""
    found = await http_figures("SQLite", f"sqlite:{place / 'http.db'}", LOADS)
    with cluster(durable=True) as postgres, postgres.database() as url:
        return found + await http_figures("PostgreSQL", url, ((64, 1), (64, 32)))


# --- the store ---------------------------------------------------------------------------------


async def store_figures(
    engine: str, where: str, floor: Callable[[Sequence[Row]], None]
) -> list[Figure]:
    """Measure the store without HTTP, each load beside plain commits of as many events."""
    found: list[Figure] = []
    place: str | Path = where if where.startswith("postgresql") else Path(where)
    async with open_store(place) as store:
        user, _ = await make(store, SYSTEM, "user")
        bot, _ = await make(store, user, "bot")
        thread_id = await joint_thread(store, user, bot)
        for writers, batch in LOADS:
            rate = await _store_rate(store, bot, thread_id, writers, batch)
            plain = await trio.to_thread.run_sync(floor_rate, floor, min(writers, GROUP) * batch)
            what = f"{engine}, {writers} writers, {batch} events each: the store"
            found.append(_figure(what, rate, plain))
    return found


async def _store_rate(
    store: Store, author: Caller, thread_id: str, writers: int, batch: int
) -> float:
    """Return events a second, from the moment at which every writer has begun its run."""
    runs = [f"run_{next(_KEYS)}" for _ in range(writers)]
    async with trio.open_nursery() as nursery:
        for run_id in runs:
            start = wire.NewEvents(events=[_start(run_id)])
            nursery.start_soon(store.append, author, thread_id, start)
    done, began = 0, trio.current_time()

    async def write(run_id: str) -> None:
        nonlocal done
        while trio.current_time() < began + SECONDS:
            events = [_delta(run_id) for _ in range(batch)]
            await store.append(author, thread_id, wire.NewEvents(events=events))
            done += batch

    async with trio.open_nursery() as nursery:
        for run_id in runs:
            nursery.start_soon(write, run_id)
    return done / (trio.current_time() - began)


def _start(run_id: str) -> wire.NewEvent:
    return wire.NewEvent(type="run_started", run_id=run_id, key=f"k{next(_KEYS)}")


def _delta(run_id: str) -> wire.NewEvent:
    payload = msgspec.Raw(DELTA.encode())
    return wire.NewEvent(type="message_part", run_id=run_id, payload=payload, key=f"k{next(_KEYS)}")


def _figure(what: str, rate: float, plain: float) -> Figure:
    share = f"{plain:,.0f} events/s; {rate / plain:.0%} of it"
    return Figure(what, f"{rate:,.0f} events/s", share, "half, full batches")


# --- over HTTP ---------------------------------------------------------------------------------


async def http_figures(engine: str, where: str, loads: Sequence[tuple[int, int]]) -> list[Figure]:
    """Measure a server in a process of its own; the writers are in this one."""
    found: list[Figure] = []
    for writers, batch in loads:
        async with serving(Wanted(store=where)) as server:
            before = await server.usage()
            rate = await append_for(server.facts, writers, batch, SECONDS)
            cpu_s = (await server.usage()).cpu_s - before.cpu_s
        each = f"{cpu_s / (rate * SECONDS) * 1e3:.1f} ms of the server's processor each"
        what = f"{engine}, {writers} writers, {batch} events each: over HTTP"
        said = f"{rate:,.0f} requests/s, {rate * batch:,.0f} events/s"
        found.append(Figure(what, said, each, "some hundreds of requests/s"))
    return found


# --- the floor ---------------------------------------------------------------------------------


def floor_rate(commit: Callable[[Sequence[Row]], None], events: int) -> float:
    """Return events a second of plain commits, so many events in each."""
    seqs, done, end = itertools.count(next(_KEYS) * 1_000_000 + 1), 0, 0.0
    began = time.perf_counter()
    while end < began + FLOOR_S:
        rows = [_row(next(seqs)) for _ in range(events)]
        commit(rows)
        done += events
        end = time.perf_counter()
    return done / (end - began)


def _row(seq: int) -> Row:
    now, run_id = "2026-12-01T00:00:00.000Z", "run_floor"
    kind = "message_part"
    return ("thr_floor", seq, f"evt_{seq:026d}", now, "bot", kind, run_id, f"k{seq}", DELTA)


def sqlite_floor(place: Path) -> Callable[[Sequence[Row]], None]:
    """Return what commits rows into the server's own table and indexes, and nothing else."""
    path = place / "floor.db"
    open_database(path).close()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")

    def commit(rows: Sequence[Row]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO events ({_COLUMNS}) VALUES ({marks})", rows)
        connection.execute("COMMIT")

    return commit


def postgres_floor(url: str) -> Callable[[Sequence[Row]], None]:
    """Return the same for PostgreSQL."""
    open_database(url).close()
    connection = psycopg.connect(url)

    def commit(rows: Sequence[Row]) -> None:
        marks = ", ".join(["%s"] * len(rows[0]))
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO events ({_COLUMNS}) VALUES ({marks})", rows)
        connection.commit()

    return commit
