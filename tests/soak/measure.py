"""What a soak measures, and when it has found a plateau."""

from collections.abc import Mapping, Sequence
from statistics import median

Held = Mapping[str, int]
MB = 1_000_000

BOT: dict[str, float] = {
    "rssBytes": 4 * MB,
    "heldBytes": 1.5 * MB,
    "memoryBlocks": 4_000,
    "files": 8,
    "tasks": 24,
    "workerThreads": 4,
}
SERVER: dict[str, float] = {**BOT, "memoryBlocks": 8_000}
"""By how much the median of the last third may lie above that of the middle third.

Between the two lie a third of all turns, so what one turn leaves behind is counted a thousand
times by the soak of 3,000, and thirty-three thousand times by the one of 100,000. Objects in use
are the finest measure: four of them a turn are found by the first, one in eight turns by the other;
they differ by the turns that are in hand at the time, some hundred each, and in a server by the
newest events that it keeps for sockets. Resident memory, as the kernel tells it, also holds garbage
and what the C library keeps for later; what is held without that is steadier. Files and tasks
differ by a session or two, which have 4 and some 12 of them, and by connections for calls.
"""
QUIET = ("runs", "messages", "calls", "events", "keys", "sessions", "waiting", "processes", "ended")
"""Of all this nothing is left when nobody says anything and the sessions hibernate."""


def grown(samples: Sequence[Held], bounds: Mapping[str, float]) -> list[str]:
    """Return what grew by more than its bound from the middle third to the last."""
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    found: list[str] = []
    for name, most in bounds.items():
        before, after = (median(held[name] for held in part) for part in (middle, last))
        if after - before > most:
            found.append(f"{name}: {before:,.0f} became {after:,.0f}, more by over {most:,}")
    return found


def busy(held: Held) -> list[str]:
    """Return what is held though all is quiet."""
    return [f"{name}: {held[name]}" for name in QUIET if held[name]]


def table(title: str, samples: Sequence[Held], names: Sequence[str]) -> str:
    """Return figures at the beginning, after each third, and at the end."""
    third = len(samples) // 3
    shown = [samples[0], samples[third], samples[2 * third], samples[-1]]
    lines = [f"{name}: {' → '.join(f'{held[name]:,}' for held in shown)}" for name in names]
    return "\n  ".join([title, *lines])
