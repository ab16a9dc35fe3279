"""A census is logged when somebody asks, and counts what whoever holds it says."""

import logging
import os

import msgspec
import pytest
import trio

from scuba.census import Counters, numbers
from scuba.descriptors import open_files


class Held(msgspec.Struct):
    rooms: int
    connected: bool


async def test_it_is_told_whatever_the_level(caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters()
    counters.add("held", lambda: numbers(Held(3, True)))
    caplog.set_level(logging.ERROR, "scuba")
    caplog.handler.setLevel(logging.NOTSET)
    counters.tell()

    [told] = caplog.records
    assert (told.levelname, told.name, told.getMessage()) == ("INFO", "scuba.census", "census")
    assert (told.__dict__["rooms"], told.__dict__["connected"]) == (3, 1)
    assert told.__dict__["rss_bytes"] > 1_000_000
    assert told.__dict__["held_bytes"] > 1_000_000


async def test_it_counts_tasks_and_files_and_what_a_later_part_says(nursery: trio.Nursery) -> None:
    counters = Counters()
    before = counters.census()
    nursery.start_soon(trio.sleep_forever)
    counters.add("held", lambda: {"rooms": 1})
    counters.add("held", lambda: {"rooms": 2})
    file = os.open(os.devnull, os.O_RDONLY)
    after = counters.census()
    os.close(file)

    assert after["tasks"] == before["tasks"] + 1
    assert after["files"] == before["files"] + 1 == open_files() + 1
    assert after["rooms"] == 2


async def test_it_counts_what_is_held_and_no_garbage() -> None:
    """Field case 14.4: so that two censuses can be compared."""
    counters = Counters()
    counters.census()
    before = counters.census()["memory_blocks"]
    for _ in range(10_000):
        cycle: list[object] = []
        cycle.append(cycle)
    assert counters.census()["memory_blocks"] - before < 1_000
    kept = [[number] for number in range(10_000)]

    assert counters.census()["memory_blocks"] - before > len(kept)


async def test_it_tells_memory_that_is_held_from_memory_that_is_only_kept() -> None:
    """Field case 14.4: pieces between others, which the C library gives back only when told to."""
    kept = [bytes(3_000) for _ in range(20_000)]
    del kept[:-1:2], kept[1::2]
    held = Counters().census()

    assert held["rss_bytes"] - held["held_bytes"] > 10_000_000
