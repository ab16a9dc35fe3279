"""The journal: nothing settled is forgotten, nothing goes back, a broken file is named."""

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.events import TextDelta, part
from actors.ports import Journal, Keyed, Position, Record
from scuba.errors import ConfigError, ScubaError
from scuba.journal import open_journal
from scuba.journal.schema import MIGRATIONS

POSITIONS = st.builds(Position, st.sampled_from(["e1", "e2"]), st.integers(0, 20))


async def test_what_is_settled_and_remembered_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        port: Journal = journal
        await port.settle("thr_a", Position("e1", 7))
        await port.settle("thr_b", Position("e1", 2**53 - 1))
        await port.remember_session("thr_a", "s1")
        await port.remember_session("thr_b", "s2")
        await port.remember_session("thr_b", None)

    async with open_journal(path) as journal:
        assert journal.checkpoints() == {
            "thr_a": Position("e1", 7),
            "thr_b": Position("e1", 2**53 - 1),
        }
        assert journal.session_id("thr_a") == "s1"
        assert journal.session_id("thr_b") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_sessions_that_were_retired_stay_on_record_with_the_cause(tmp_path: Path) -> None:
    """Field case 7.6: for whoever looks into it later."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.remember_session("thr_a", "s1")
        await journal.retire_session("thr_a", "s1", "the CLI: " + "x" * 10_000)
        await journal.remember_session("thr_a", "s2")
        await journal.retire_session("thr_a", "s2", "failed alike again: bad_request")

    async with open_journal(path) as journal:
        rows = journal._connection.execute("SELECT * FROM retired_sessions").fetchall()
        assert [row[1:3] for row in rows] == [("thr_a", "s1"), ("thr_a", "s2")]
        assert len(rows[0][3]) <= 2_000
        assert rows[1][3] == "failed alike again: bad_request"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", rows[1][4])
        assert journal.has_retired("thr_a")
        assert journal.session_id("thr_a") is None


@settings(max_examples=25, deadline=None)
@given(st.lists(POSITIONS, max_size=8))
def test_a_checkpoint_never_goes_back_within_an_epoch(positions: list[Position]) -> None:
    """In memory and in the file alike, whatever the order of settling."""

    async def main(folder: str) -> None:
        async with open_journal(Path(folder) / "journal.db") as journal:
            model: Position | None = None
            for position in positions:
                await journal.settle("t", position)
                if model is None or model.log_epoch != position.log_epoch:
                    model = position
                model = max(model, position, key=lambda one: one.seq)
                rows = journal._connection.execute("SELECT log_epoch, seq FROM checkpoints")

                assert journal.checkpoints()["t"] == model
                assert [Position(*row) for row in rows] == [model]

    with TemporaryDirectory() as folder:
        trio.run(main, folder)


async def test_settling_at_once_from_many_threads_keeps_every_thread(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal, trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(journal.settle, f"thr_{number}", Position("e", number))

    async with open_journal(path) as journal:
        assert {position.seq for position in journal.checkpoints().values()} == set(range(50))


async def test_a_cancelled_settle_is_whole_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        with trio.move_on_after(0):
            await journal.settle("t", Position("e", 1))
        in_memory = dict(journal.checkpoints())

    async with open_journal(path) as journal:
        assert dict(journal.checkpoints()) == in_memory


RUBBISH = {
    "two NUL bytes": b"\0\0",
    "another format": b"{}",
    "header and rubbish": b"SQLite format 3\0" + b"x" * 5000,
    "text": b"not a database" * 400,
}


@pytest.mark.parametrize("content", RUBBISH.values(), ids=list(RUBBISH))
async def test_a_damaged_file_is_put_aside_and_named(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 7.4: the daemon starts, and nothing of the damaged file is lost."""
    path = tmp_path / "journal.db"
    for number in (1, 2):
        path.write_bytes(content)
        async with open_journal(path) as journal:
            assert journal.checkpoints() == {}
            await journal.settle("t", Position("e", 1))

        assert (tmp_path / f"journal.db.damaged-{number}").read_bytes() == content
    assert f"{path} is damaged at byte 0" in caplog.text
    assert "journal.db.damaged-2" in caplog.text


async def test_a_file_cut_in_half_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 7.4: half of a database is not taken for a whole one."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        for number in range(200):
            await journal.remember_session(f"thr_{number}", "s" * 100)
    os.truncate(path, path.stat().st_size // 2)

    async with open_journal(path) as journal:
        assert journal.session_id("thr_1") is None
    assert "is damaged at byte" in caplog.text


async def test_a_page_that_was_written_over_is_named_by_its_offset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 7.4: the file and the offset."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        for number in range(200):
            await journal.remember_session(f"thr_{number}", "s" * 100)
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        for page in range(2, pages):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)

    async with open_journal(path):
        pass

    assert "is damaged at byte" in caplog.text
    assert "at byte 0 " not in caplog.text


async def test_an_empty_file_is_a_new_journal(tmp_path: Path) -> None:
    """Field case 7.4."""
    (tmp_path / "journal.db").touch()
    async with open_journal(tmp_path / "journal.db") as journal:
        assert journal.checkpoints() == {}


@pytest.mark.parametrize("name", ["", "missing/journal.db"], ids=["a directory", "no directory"])
async def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    """Field case 7.4, the permission case: root may read all, so other refusals stand for it."""
    with pytest.raises(ConfigError) as caught:
        async with open_journal(tmp_path / name):
            pass

    assert str(tmp_path / name) in caught.value.what


async def test_a_journal_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    connection.close()

    with pytest.raises(ConfigError, match="later scuba: version 99"):
        async with open_journal(path):
            pass


async def test_a_journal_belongs_to_one_principal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path, principal_id="bot-a"):
        pass
    async with open_journal(path, principal_id="bot-a"):
        pass

    with pytest.raises(ConfigError, match="belongs to bot-a, not to bot-b"):
        async with open_journal(path, principal_id="bot-b"):
            pass


async def test_a_write_that_will_never_pass_is_told_and_changes_nothing(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal.db") as journal:
        await journal.settle("t", Position("e", 1))
        journal._connection.execute("DROP TABLE runs")

        with pytest.raises(ScubaError, match=r"cannot write the journal .*journal\.db"):
            await journal.settle("t", Position("e", 2))
        assert journal.checkpoints() == {"t": Position("e", 1)}


async def test_a_journal_of_the_first_version_comes_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.executescript(MIGRATIONS[0])
        connection.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        connection.execute("INSERT INTO checkpoints VALUES ('t', 'e', 7)")
        connection.execute("INSERT INTO sessions VALUES ('t', 's')")

    async with open_journal(path) as journal:
        assert journal.checkpoints() == {"t": Position("e", 7)}
        assert journal.session_id("t") == "s"
        assert await journal.record("t") == Record()


@pytest.mark.parametrize("synchronous", ["normal", "full"])
async def test_how_durable_a_commit_is_can_be_chosen(
    tmp_path: Path, synchronous: Literal["normal", "full"]
) -> None:
    async with open_journal(tmp_path / "journal.db", synchronous=synchronous) as journal:
        row = journal._connection.execute("PRAGMA synchronous").fetchone()

    assert row == ({"normal": 1, "full": 2}[synchronous],)


async def test_what_is_held_can_be_had_again_by_its_keys(tmp_path: Path) -> None:
    events = [Keyed(f"r/{n}", part("r", TextDelta(id="t", delta=str(n)))) for n in range(3)]
    async with open_journal(tmp_path / "journal.db") as journal:
        await journal.keep("t", events)
        await journal.keep("other", events[:1])

        found = await journal.recall("t", ["r/2", "r/0"])

    assert [keyed.key for keyed in found] == ["r/2", "r/0"]
    assert [keyed.draft.type for keyed in found] == ["message_part", "message_part"]
    assert b'"2"' in bytes(found[0].draft.payload)  # type: ignore[arg-type]  # as JSON
