"""What was acknowledged is there: after a close, after a kill -9, and in the next version."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import pytest

from scuba import wire
from scuba.errors import ConfigError, StateInUse
from scuba.server.store import SYSTEM, open_database, open_store, schema
from scuba.server.store.database import Broken
from tests.kit.postgres import Cluster, cluster
from tests.kit.store import Clock, finished, on_thread, open_world, started, text

ROOT = Path(__file__).parents[4]


async def test_everything_is_there_when_the_store_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        ada = await world.user("ada")
        thread_id = await world.thread(ada, title="Release", key="t/1")
        first = await world.append(ada, thread_id, started("r", "r/0"), text("hi", "r", "r/1"))
        log = await world.log(ada, thread_id)
        epoch, token = world.store.log_epoch, world.tokens["ada"]

    async with open_store(path, now_ms=Clock()) as store:
        back = await store.identify(token)
        assert back is not None
        assert store.log_epoch == epoch
        assert await store.read("ada", thread_id, 0, limit=100, max_bytes=10**6) == log
        batch = wire.NewEvents(events=[started("r", "r/0"), text("hi", "r", "r/1")])
        new, again = await store.append(back, thread_id, batch)
        assert (new, [e.id for e in again.events]) == (False, [e.id for e in first.events])
        made, thread = await store.create_thread(back, wire.NewThread(key="t/1"))
        assert (made, thread.thread_id, thread.title) == (False, thread_id, "Release")
        _, more = await store.append(back, thread_id, wire.NewEvents(events=[finished("r")]))
        assert more.last_seq == first.last_seq + 1


WRITER = """
import sys, trio
from scuba import wire
from scuba.server.store import SYSTEM, open_store
from tests.kit.store import text

async def write(store, lane):
    for number in range(10_000):
        key = f"{lane}/{number}"
        batch = wire.NewEvents(events=[text(key, key=key), text(key, key=key + "b")])
        _, got = await store.append(SYSTEM, "thr_1", batch)
        print(key, got.events[0].seq, flush=True)

async def main():
    async with open_store(sys.argv[1]) as store, trio.open_nursery() as nursery:
        await store.create_thread(SYSTEM, wire.NewThread(), thread_id="thr_1")
        first = int(sys.argv[2])
        for lane in range(first, first + 8):
            nursery.start_soon(write, store, lane)

trio.run(main)
"""


async def test_a_kill_in_the_middle_loses_no_acknowledged_append_and_leaves_no_gap(
    tmp_path: Path,
) -> None:
    place = f"sqlite:{tmp_path / 'bubble.db'}"
    await _check_all_is_there(place, await _write_until_killed(place, 300))


@pytest.fixture
def durable() -> Generator[Cluster]:
    with cluster(durable=True) as running:
        yield running


async def test_the_same_in_postgresql_also_when_that_crashes_too(durable: Cluster) -> None:
    with durable.database() as place:
        await _check_all_is_there(place, await _write_until_killed(place, 200))
        acknowledged = await _write_until_killed(place, 200, lane=8, meanwhile=durable.crash)
        await _check_all_is_there(place, acknowledged)


async def _check_all_is_there(place: str, acknowledged: dict[str, int]) -> None:
    async with open_store(place) as store:
        _, last_seq = await store.role_on(SYSTEM, "thr_1")
        log = await store.read("system", "thr_1", 0, limit=10**6, max_bytes=10**9)
    assert [event.seq for event in log] == list(range(1, last_seq + 1))
    keys = {event.key: event.seq for event in log}
    assert len(acknowledged) >= 200
    assert all(keys[key] == seq for key, seq in acknowledged.items())
    halves = {key.removesuffix("b") for key in keys if key is not None}
    assert all(f"{key}b" in keys for key in halves)


async def _write_until_killed(
    place: str, lines: int, *, lane: int = 0, meanwhile: Callable[[], None] | None = None
) -> dict[str, int]:
    """Run the writer in a process of its own, and kill it after so many acknowledgements.

    Before that, `meanwhile` happens to it.
    """
    process = subprocess.Popen(  # noqa: ASYNC220  # nothing else runs meanwhile
        [sys.executable, "-c", WRITER, place, str(lane)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath},
    )
    assert process.stdout is not None
    try:
        got = [process.stdout.readline() for _ in range(lines)]
        if meanwhile is not None:
            meanwhile()
        process.send_signal(signal.SIGKILL)
        got += process.stdout.read().splitlines()[:-1]  # the last may be half a line
    finally:
        process.kill()
        process.wait(timeout=10)
        process.stdout.close()
    return {key: int(seq) for key, seq in (line.split() for line in got)}


async def test_a_store_of_a_newer_server_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_store(path):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")

    with pytest.raises(ConfigError, match="schema version 99"):
        async with open_store(path):
            pass


async def test_what_is_no_store_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ada, this is not a database. " * 100)
    with pytest.raises(ConfigError, match=r"letter\.txt"):
        async with open_store(path):
            pass
    assert path.read_text().startswith("Dear Ada")

    with pytest.raises(ConfigError, match="nowhere"):
        async with open_store(tmp_path / "nowhere" / "bubble.db"):
            pass


async def test_a_second_server_on_one_file_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        await world.user("ada")
        with pytest.raises(StateInUse, match=r"bubble\.db is in use by process"):
            async with open_store(f"sqlite:{path}"):
                pass
        with closing(open_database(path, read_only=True)) as reader:
            assert reader.look(schema.log_epoch) == world.store.log_epoch
            with pytest.raises(Broken, match="readonly"):
                reader.apply([lambda tx: tx.run("DELETE FROM events")])
        await world.user("ben")

    async with open_world(path) as world:  # whoever leaves lets go of it
        assert await world.store.identify("bubble_user_" + "x" * 43) is None


def test_a_reader_of_what_is_no_store_makes_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        open_database(tmp_path / "nothing.db", read_only=True)

    assert list(tmp_path.iterdir()) == []


async def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        await world.user("ada")
        modes = _modes(tmp_path)

    assert modes == {0o600}


def _modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


async def test_no_token_is_kept_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        await world.user("ada")
        token = world.tokens["ada"]

    assert token.encode() not in path.read_bytes()


async def test_each_new_store_is_another_log(tmp_path: Path) -> None:
    epochs = set()
    for name in "ab":
        async with open_store(tmp_path / name) as store:
            epochs.add(store.log_epoch)

    assert len(epochs) == 2


async def test_seeding_a_thread_twice_leaves_what_exists(tmp_path: Path) -> None:
    async with open_world(tmp_path / "bubble.db") as world:
        ada = await world.user("ada")
        for title in ("first", "second"):
            body = wire.NewThread(title=title)
            new, thread = await world.store.create_thread(SYSTEM, body, thread_id="thr_home")
            assert (new, thread.title) == (title == "first", "first")
        await world.grant(SYSTEM, "thr_home", ada, "owner")

        view = await world.store.thread(ada, "thr_home")
        assert [p.principal_id for p in view.participants] == ["ada"]
        grants, _ = await world.store.grants_on(ada, on_thread("thr_home"), limit=9, after=None)
        assert [(g.principal_id, g.role) for g in grants] == [("ada", "owner")]


async def test_a_store_of_an_older_server_is_brought_up_once_and_keeps_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        await world.user("ada")
    later = "CREATE TABLE later (x TEXT);\n\nINSERT INTO later VALUES ('once');\n"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, later))
    for _ in range(2):
        async with open_store(path) as store:
            assert (await store.principal(SYSTEM, "ada")).kind == "user"

    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT x FROM later").fetchall()
        version = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'")
        assert (rows, version.fetchone()) == ([("once",)], (str(len(schema.MIGRATIONS)),))


async def test_a_sqlite_that_lacks_what_we_need_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(ConfigError, match=r"needs 3\.35\.0"):
        async with open_store(None):
            pass
