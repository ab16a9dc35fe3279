"""Every table of a store and every row of it: what each schema version has, by its migrations."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from scuba.server.store.engine import Row, Tx
from scuba.server.store.schema import MIGRATIONS

_CREATE = re.compile(r"CREATE TABLE (\w+) \(\n(.*?)\n\)", re.DOTALL)
_ADD = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (.*)", re.DOTALL)
PAGE = 200
"""Rows read at once; one event has at most some hundred kilobytes."""
PAGE_OF_PIECES = 8
_KEY = re.compile(r"PRIMARY KEY \(([\w, ]+)\)")


class Table(msgspec.Struct, frozen=True):
    """One table of a store."""

    name: str
    columns: tuple[str, ...]
    blobs: frozenset[str]
    """The columns that hold bytes."""
    key: tuple[str, ...]
    """The columns of its primary key."""


def tables(version: int) -> tuple[Table, ...]:
    """Return the tables of a schema version; what refers to another table comes after it."""
    found: dict[str, Table] = {}
    for statement in _statements(MIGRATIONS[:version]):
        if created := _CREATE.match(statement):
            found[created[1]] = _created(created[1], created[2])
        elif added := _ADD.match(statement):
            found[added[1]] = _with_column(found[added[1]], added[2])
    return tuple(found.values())


def pages(tx: Tx, table: Table) -> Iterator[list[Row]]:
    """Yield every row of a table by its primary key, a page at a time."""
    key, limit = ", ".join(table.key), page_size(table)
    marks = ", ".join("?" * len(table.key))
    places = [table.columns.index(name) for name in table.key]
    select = f"SELECT {', '.join(table.columns)} FROM {table.name}"
    after: tuple[object, ...] = ()
    while True:
        where = f" WHERE ({key}) > ({marks})" if after else ""
        page = tx.all(f"{select}{where} ORDER BY {key} LIMIT {limit}", after)
        if page:
            yield page
        if len(page) < limit:
            return
        after = tuple(page[-1][place] for place in places)


def page_size(table: Table) -> int:
    """Return how many rows are held at once: pieces of artifacts are big."""
    return PAGE_OF_PIECES if "piece" in table.blobs else PAGE


def _statements(scripts: Sequence[str]) -> Iterator[str]:
    for script in scripts:
        yield from (statement.strip() for statement in script.split(";\n"))


def _created(name: str, body: str) -> Table:
    table = Table(name, (), frozenset(), ())
    for line in body.split("\n"):
        entry = line.strip().removesuffix(",")
        if key := _KEY.match(entry):
            table = msgspec.structs.replace(table, key=tuple(key[1].split(", ")))
        else:
            table = _with_column(table, entry)
    return table


def _with_column(table: Table, entry: str) -> Table:
    name, type_, *rest = entry.split(" ")
    return Table(
        table.name,
        (*table.columns, name),
        table.blobs | {name} if type_ == "BLOB" else table.blobs,
        (name,) if rest[:2] == ["PRIMARY", "KEY"] else table.key,
    )
