"""What a server of schema version 1 kept, this one reads the same, on either engine (16.3).

`store_schema_1.sql` is the dump of a store that the first shipped server wrote.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scuba import wire
from scuba.server.store import SYSTEM, Store, open_database, open_store, schema
from scuba.server.store.database import Database, Tx
from tests.kit.postgres import Cluster
from tests.kit.store import Clock, finished, refused, started, text

DUMP = Path(__file__).parents[3] / "data" / "store_schema_1.sql"
ADA = "bubble_user_0cQnEDw0TEGJ6y8ee9XUfkRvzsKj2BFzYRDleBvMzqY"
RESEARCH = "bubble_agent_j4nsX3m9IhYWyl9wBgjsqRU9KIIVYqEb4wNIx6Qh6Ck"
OLD = "bubble_agent_2zO6A0CqD8GEIm7BaoH8RwMd4z92tMVETnIHHD4MG8w"
THREAD = "thr_dv1e1s92aw"

Rows = list[tuple[Any, ...]]
FIRST_TABLES = (
    "meta", "principals", "tokens", "grants", "grant_log", "threads", "thread_keys", "events",
    "runs", "tool_calls", "audit",
)  # fmt: skip
"""Each after those it refers to."""


class Kept(dict[str, tuple[list[str], Rows]]):
    """The columns and rows of each table of the old store."""

    def read_from(self, tx: Tx) -> dict[str, Rows]:
        """Return the same columns as a store has them now."""
        return {
            table: sorted(tx.all(f"SELECT {', '.join(columns)} FROM {table}"), key=repr)
            for table, (columns, _) in self.items()
        }


@pytest.fixture(scope="module")
def kept() -> Kept:
    kept = Kept()
    with closing(sqlite3.connect(":memory:")) as old:
        old.executescript(DUMP.read_text())
        for table in FIRST_TABLES:
            cursor = old.execute(f"SELECT * FROM {table}")
            columns = [column[0] for column in cursor.description]
            kept[table] = (columns, sorted(cursor.fetchall(), key=repr))
    return kept


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "bubble.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(DUMP.read_text())
    return path


@pytest.fixture
def old_database(postgres: Cluster, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with postgres.database() as url:
        with monkeypatch.context() as patch, closing(open_database(url, migrate=False)) as empty:
            patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
            schema.migrate(empty)
            fill(empty, kept)
        yield url


def fill(database: Database, kept: Kept) -> None:
    def put(tx: Tx) -> None:
        for table in reversed(FIRST_TABLES):
            tx.run(f"DELETE FROM {table}")
        for table, (columns, rows) in kept.items():
            marks = ", ".join("?" * len(columns))
            tx.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    database.apply([put])[0].unwrap()


async def test_a_file_of_version_1_reads_the_same(old_file: Path, kept: Kept) -> None:
    await check_all_reads_the_same(old_file, kept)


async def test_a_database_of_version_1_reads_the_same(old_database: str, kept: Kept) -> None:
    await check_all_reads_the_same(old_database, kept)


async def check_all_reads_the_same(place: Path | str, kept: Kept) -> None:
    async with open_store(place, now_ms=Clock()) as store:
        await check_what_callers_see(store, kept)
    with closing(open_database(place)) as now:
        rows = now.look(kept.read_from)
        assert now.look(schema.schema_version) == len(schema.MIGRATIONS)

    for table in ("principals", "grants", "grant_log", "thread_keys", "tool_calls"):
        assert rows[table] == kept[table][1]
    for table in ("events", "audit"):
        assert set(kept[table][1]) <= set(rows[table])
    epochs = [row for row in kept["meta"][1] if row[0] == "log_epoch"]
    assert [row for row in rows["meta"] if row[0] == "log_epoch"] == epochs


async def check_what_callers_see(store: Store, kept: Kept) -> None:
    ada, research = await store.identify(ADA), await store.identify(RESEARCH)
    assert ada is not None
    assert research is not None
    assert (await refused(store.identify(OLD))) == (403, "principal_disabled")

    view = await store.thread(ada, THREAD)
    assert (view.thread.title, view.thread.members_can_invite) == ("Release 1.4", False)
    assert {p.principal_id: p.role for p in view.participants} == {
        "ada": "owner",
        "ben": "approver",
        "bot-research": "member",
    }
    assert [run.run_id for run in view.active_runs] == ["open"]
    log = await store.read("ada", THREAD, 0, limit=100, max_bytes=10**6)
    assert {(e.thread_id, e.seq, e.id, bytes(e.payload).decode()) for e in log} == {
        (row[0], row[1], row[2], row[-1]) for row in kept["events"][1] if row[0] == THREAD
    }
    assert [event.seq for event in log] == list(range(1, len(log) + 1))

    again = wire.NewEvents(events=[started("r", "r/0")])
    assert (await store.append(research, THREAD, again))[0] is False
    other = wire.NewEvents(events=[text("other", "m", "m/0")])
    assert (await refused(store.append(ada, THREAD, other))) == (409, "key_conflict")
    made, thread = await store.create_thread(ada, wire.NewThread(key="t/1"))
    assert (made, thread.thread_id) == (False, THREAD)
    ends = wire.NewEvents(events=[finished("open")])
    assert (await store.append(research, THREAD, ends))[1].last_seq == len(log) + 1
    tokens = await store.tokens(SYSTEM, "ada")
    assert [token.revoked_at is None for token in tokens if token.label == "laptop"] == [False]
