"""No look at the events of a thread is a walk along all of them, however long it is (14.2)."""

import sqlite3
from typing import Any

import pytest

from scuba.server.store.sqlite import Sqlite
from tests.kit.store import event, finished, open_world, started, text


@pytest.mark.usefixtures("tmp_path")  # so it runs on SQLite alone, whose planner it is about
async def test_nothing_goes_along_a_whole_thread() -> None:
    """Field case 14.2: SQLite without statistics, as it runs, finds events by an index."""
    async with open_world() as world:
        database: Any = world.store._engine._database
        assert isinstance(database, Sqlite)
        connection: sqlite3.Connection = database._writer
        said: list[str] = []
        ada = await world.user("ada")
        thread = await world.thread(ada)
        connection.set_trace_callback(said.append)
        parts = [text(str(n), "run_a", f"k{n}") for n in range(40)]
        await world.append(ada, thread, started("run_a", "s"), *parts, finished("run_a", "f"))
        await world.append(ada, thread, event("x.a.b", key="alone"))
        for asked in (
            {"after": 3}, {"before": 9}, {"tail": 20, "align_runs": True}, {"run_id": "run_a"},
            {"types": ("run_started",)}, {"types": ("x.a", "message_part"), "run_id": "run_a"},
        ):  # fmt: skip
            await world.page(ada, thread, **asked)
        await world.store.read(ada.id, thread, 3, limit=9, max_bytes=9_999)
        connection.set_trace_callback(None)
        plans = [
            str(row[3])
            for sql in said
            if "events" in sql and sql.startswith(("SELECT", "WITH"))
            for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")
        ]

    looks = [plan for plan in plans if " events" in plan or plan.startswith("SEARCH e ")]
    bounds = ("seq=", "seq>", "seq<", "key=", "run_id=", "type=")
    assert len(looks) > 8
    assert [plan for plan in looks if not any(bound in plan for bound in bounds)] == []
