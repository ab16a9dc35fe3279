"""A judge of plateaus that finds what grows, and nothing else."""

import pytest

from tests.soak.measure import BOT, busy, grown

STEADY = {
    "rssBytes": 100_000_000,
    "heldBytes": 95_000_000,
    "memoryBlocks": 450_000,
    "files": 34,
    "tasks": 100,
}
QUIET = dict.fromkeys(
    ("runs", "messages", "calls", "events", "keys", "sessions", "waiting", "processes", "ended"), 0
)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("rssBytes", 900_000),
        ("heldBytes", 400_000),
        ("memoryBlocks", 450),
        ("files", 1),
        ("tasks", 3),
    ],
)
def test_what_grows_with_each_turn_is_found(name: str, step: int) -> None:
    """Four objects a turn, a file with every hundredth one."""
    samples = [{**STEADY, "workerThreads": 3, name: STEADY[name] + n * step} for n in range(30)]

    assert [fault.partition(":")[0] for fault in grown(samples, BOT)] == [name]


def test_a_warm_up_and_ups_and_downs_are_no_growth() -> None:
    samples = [
        {
            "rssBytes": 60_000_000 + min(n, 9) * 4_000_000,
            "heldBytes": 60_000_000 + min(n, 9) * 3_000_000,
            "memoryBlocks": 450_000 + (n % 3) * 2_000,
            "files": 20 + min(n, 5) + (n % 2) * 10,
            "tasks": 60 + (n * 7) % 40,
            "workerThreads": n % 4,
        }
        for n in range(30)
    ]

    assert grown(samples, BOT) == []


def test_what_is_left_of_a_run_is_named() -> None:
    assert busy(QUIET) == []
    assert busy({**QUIET, "calls": 2, "keys": 1}) == ["calls: 2", "keys: 1"]
