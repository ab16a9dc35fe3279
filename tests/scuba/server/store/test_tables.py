"""What the migrations say of the tables is what both engines have."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from scuba.server.store import open_database
from scuba.server.store.restoring import perform
from scuba.server.store.schema import MIGRATIONS, schema_version, step
from scuba.server.store.tables import tables
from tests.kit.postgres import Cluster

VERSIONS = range(1, len(MIGRATIONS) + 1)


def migrated(where: Path | str, version: int) -> None:
    with closing(open_database(where, migrate=False)) as database:
        while perform(database, schema_version) < version:
            perform(database, step)


@pytest.mark.parametrize("version", VERSIONS)
def test_sqlite_has_these_columns_in_this_order(tmp_path: Path, version: int) -> None:
    path = tmp_path / "bubble.db"
    migrated(path, version)

    with closing(sqlite3.connect(path)) as file:
        names = {
            row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type='table'")
        }
        assert names == {table.name for table in tables(version)}
        for table in tables(version):
            rows = file.execute(f"PRAGMA table_info({table.name})").fetchall()
            assert [row[1] for row in rows] == list(table.columns)
            assert {row[1] for row in rows if row[2] == "BLOB"} == table.blobs
            keys = sorted((row[5], row[1]) for row in rows if row[5])
            assert [name for _, name in keys] == list(table.key)
            referred = {row[2] for row in file.execute(f"PRAGMA foreign_key_list({table.name})")}
            order = [one.name for one in tables(version)]
            assert all(order.index(name) <= order.index(table.name) for name in referred)


def test_postgres_has_these_columns(postgres: Cluster) -> None:
    newest = len(MIGRATIONS)
    with postgres.database() as url:
        migrated(url, newest)

        with psycopg.connect(url) as session:
            found = session.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = 'public'"
            ).fetchall()
    told = [(t.name, c, c in t.blobs) for t in tables(newest) for c in t.columns]
    assert {(name, column, kind == "bytea") for name, column, kind in found} == set(told)


def test_every_table_has_a_primary_key() -> None:
    """Rows are read by it, so that a page follows the other."""
    for version in VERSIONS:
        assert all(table.key for table in tables(version))
