"""Opening a thread of a million events, and reading a page anywhere in it, beside a short one."""

import statistics
import time
from pathlib import Path

import trio

from scuba import wire
from scuba.server import SYSTEM, Caller, Store, open_store
from scuba.server.store.engine import Write
from tests.bench.measure import Figure, ms
from tests.bench.serving import make
from tests.bench.writers import DELTA

EVENTS, SHORT = 1_000_000, 1_000
RUN = 200
"""Events of each run."""
ROUNDS = 15
HALF = 500_000

Pages = dict[str, dict[str, object]]
PAGES: Pages = {
    "the first page": {"after": 0},
    "a page in the middle, upwards": {"after": HALF},
    "a page in the middle, downwards": {"before": HALF},
    "the newest 200": {"tail": 200},
    "the newest 200, runs aligned": {"tail": 200, "align_runs": True},
    "one run in the middle": {"run_id": f"run_{HALF // RUN}"},
    "starts of runs (`type=`)": {"types": ("run_started",), "after": HALF},
    "a type that nobody used": {"types": ("x.never.used",), "after": 0},
    "a type beside parts, few of them": {"types": ("message_part", "x.a"), "after": HALF},
}


async def figures(place: Path) -> list[Figure]:
    """Measure at the store, in this process, what `GET …/events` answers from."""
    async with open_store(place / "long.db") as store:
        who, _ = await make(store, SYSTEM, "user")
        other, _ = await make(store, SYSTEM, "user")
        long, short = [await filled(store, who, other, count) for count in (EVENTS, SHORT)]
        floor = await timed(store, who, short, {"after": 0})
        found = [
            Figure("opening it (`GET …/threads/:threadId`)", ms(await opened(store, who, long)),
                   ms(await opened(store, who, short)), "flat, < 20 ms"),
        ]  # fmt: skip
        for what, asked in PAGES.items():
            took = await timed(store, who, long, asked)
            found.append(Figure(what, ms(took), ms(floor), "flat, < 20 ms"))
        found.append(await subscribed(store, who, long))
    return found


async def filled(store: Store, who: Caller, author: Caller, count: int) -> str:
    """Return the id of a thread with so many events of another's runs; made without the rules."""
    _, thread = await store.create_thread(who, wire.NewThread())
    thread_id = thread.thread_id

    def fill(w: Write) -> None:
        w.run(_EVENTS.replace("STEPS", str(count)), (thread_id, thread_id, author.id, DELTA))
        w.run(_RUNS, (author.id, thread_id))
        w.run("UPDATE threads SET last_seq = ? WHERE thread_id = ?", (count, thread_id))

    await store.set_up(fill)
    return thread_id


_EVENTS = f"""
WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < STEPS)
INSERT INTO events (thread_id, seq, id, ts, principal_id, type, run_id, payload)
SELECT ?, i, ? || i, '2026-12-01T00:00:00.000Z', ?,
    CASE i % {RUN} WHEN 3 THEN 'run_started' WHEN 2 THEN 'run_finished' ELSE 'message_part' END,
    'run_' || ((i - 3) / {RUN}), ? FROM n
"""
_RUNS = """
INSERT INTO runs (thread_id, run_id, principal_id, first_seq, last_seq, status)
SELECT thread_id, run_id, ?, MIN(seq), MAX(seq), 'completed' FROM events
WHERE thread_id = ? AND run_id IS NOT NULL GROUP BY thread_id, run_id
"""


async def timed(store: Store, who: Caller, thread_id: str, asked: dict[str, object]) -> list[float]:
    nothing: dict[str, object] = {
        "after": None, "before": None, "tail": None, "align_runs": False, "run_id": None,
        "types": (), "limit": 200,
    }  # fmt: skip
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await store.page(who, thread_id, **(nothing | asked))  # type: ignore[arg-type]  # a table of queries
        took.append(time.perf_counter() - began)
    return took


async def opened(store: Store, who: Caller, thread_id: str) -> list[float]:
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await store.thread(who, thread_id)
        took.append(time.perf_counter() - began)
    return took


async def subscribed(store: Store, who: Caller, thread_id: str) -> Figure:
    """Measure what a subscription in the middle reads for each frame."""
    took: list[float] = []
    after = HALF
    for _ in range(ROUNDS):
        began = time.perf_counter()
        events = await store.read(who.id, thread_id, after, limit=200, max_bytes=524_288)
        took.append(time.perf_counter() - began)
        after = events[-1].seq
    rate = 200 / statistics.median(took)
    await trio.lowlevel.checkpoint()
    return Figure("what a socket reads for one frame", f"{ms(took)}, {rate:,.0f} events/s")
