"""How many data frames a second reach the actor, and how many are translated, in one process."""

import json
import time
import uuid
from pathlib import Path

from actors.harness import Spoken, TextSaid, TurnEnded
from actors.outbound import Outbound
from actors.pending import Pending
from scuba.harness.claude.frames import Result, decode
from scuba.harness.claude.harness import ClaudeHarness
from tests.bench.measure import Figure, cpu_s, median_rate
from tests.bench.plain import plain_cli
from tests.bench.settings import fake_settings

FRAMES, ROUNDS = 100_000, 5


def load(size: int) -> str:
    """Return the prompt that makes the fake CLI write `FRAMES` deltas."""
    return json.dumps([{"load": FRAMES, "size": size, "batch": 256}])


async def figures(place: Path) -> list[Figure]:
    """Measure 20 and 200 bytes of text a frame."""
    found: list[Figure] = []
    for size in (20, 200):
        floor = [await _plain(place, size) for _ in range(ROUNDS)]
        taken = [await _harness(place, size, translate=False) for _ in range(ROUNDS)]
        whole = [await _harness(place, size, translate=True) for _ in range(ROUNDS)]
        shown = median_rate(floor)
        found += [
            Figure(
                f"data frames into the actor, {size} B of text",
                median_rate([rate for rate, _ in taken]),
                shown,
                "150,000/s",
            ),
            Figure(
                f"… and translated and merged for the way out, {size} B",
                median_rate([rate for rate, _ in whole]),
                shown,
                "100,000/s",
            ),
            Figure(
                f"our processor time a delta, translated, {size} B",
                f"{sorted(cpu for _, cpu in whole)[ROUNDS // 2] * 1e6:.1f} µs",
                "",
                "10 µs",
            ),
        ]
    return found


async def _plain(place: Path, size: int) -> float:
    """Return frames a second of a pipe and msgspec, with nothing between."""
    settings = fake_settings(place)
    assert settings.cli_path is not None
    async with plain_cli([str(settings.cli_path)], settings.env, str(settings.cwd)) as cli:
        await cli.initialize()
        began, count = time.perf_counter(), 0
        await cli.prompt(load(size))
        while True:
            frames = [decode(line) for line in await cli.chunk()]
            count += len(frames)
            if any(isinstance(frame, Result) for frame in frames):
                return count / (time.perf_counter() - began)


async def _harness(place: Path, size: int, *, translate: bool) -> tuple[float, float]:
    """Return frames a second, and seconds of our processor time a frame, through the harness."""
    harness, outbound, pending = ClaudeHarness(fake_settings(place)), Outbound("run"), Pending()
    chars = 0
    async with harness.open(f"bench-{uuid.uuid4().hex[:8]}", None) as session:
        began, cpu = time.perf_counter(), cpu_s()
        await session.prompt("p", load(size))
        while True:
            said = await session.receive()
            if translate:
                pending.add(outbound.translate([word for word in said if isinstance(word, Spoken)]))
                pending.hand_out()
                pending.landed()
            chars += sum(len(item.text) for item in said if isinstance(item, TextSaid))
            if any(isinstance(item, TurnEnded) for item in said):
                break
        took = time.perf_counter() - began
    assert chars == FRAMES * size, f"{chars} characters instead of {FRAMES * size}"
    return FRAMES / took, (cpu_s() - cpu) / FRAMES
