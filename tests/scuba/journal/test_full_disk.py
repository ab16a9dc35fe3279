"""The journal on a disk that is full: what it is told waits, and is on record in the end."""

import logging
import sqlite3
from pathlib import Path

import pytest
import trio

from actors.events import TextDelta, part
from actors.ports import Keyed, OpenRun, Position
from scuba.journal import SqliteJournal, open_journal

DEADLINE_S = 60
BIG = Keyed("run/1", part("run", TextDelta(id="t1", delta="x" * 200_000)))
RUN = OpenRun(run_id="run", prompt_id="prompt", through_seq=4)


def fill(journal: SqliteJournal) -> None:
    """Let the file grow no further, so that SQLite itself says that it is full."""
    pages = connection(journal).execute("PRAGMA page_count").fetchone()[0]
    connection(journal).execute(f"PRAGMA max_page_count = {pages}")


def connection(journal: SqliteJournal) -> sqlite3.Connection:
    return journal._connection  # the fault is put into the real connection


async def test_what_is_kept_waits_for_space_and_the_others_for_their_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []
    with trio.fail_after(DEADLINE_S), caplog.at_level(logging.INFO):
        async with open_journal(tmp_path / "journal.db") as journal:

            async def keep() -> None:
                await journal.keep("a", [BIG])
                done.append("keep")

            async def others() -> None:
                await journal.see("b", 3)
                await journal.begin("b", RUN)
                await journal.remember_session("b", "session")
                await journal.settle("b", Position("epoch", 4))
                done.append("others")

            fill(journal)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keep)
                await _said(caplog)
                nursery.start_soon(others)
                assert done == []

                connection(journal).execute("PRAGMA max_page_count = 1000000")

            kept = (await journal.record("a")).unsent

    assert done == ["keep", "others"]
    assert [keyed.key for keyed in kept] == ["run/1"]
    assert journal.checkpoints() == {"b": Position("epoch", 4)}
    assert journal.session_id("b") == "session"
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert str(tmp_path) in errors[0].getMessage()
    assert "can be written again" in caplog.text


async def test_who_waits_for_space_can_be_cancelled(tmp_path: Path) -> None:
    with trio.fail_after(DEADLINE_S):
        async with open_journal(tmp_path / "journal.db") as journal:
            fill(journal)
            with trio.move_on_after(0.2) as scope:
                await journal.keep("a", [BIG])

            assert scope.cancelled_caught
            assert (await journal.record("a")).unsent == ()


async def _said(caplog: pytest.LogCaptureFixture) -> None:
    while "cannot write the journal" not in caplog.text:  # noqa: ASYNC110  # a log has no event
        await trio.sleep(0.01)
