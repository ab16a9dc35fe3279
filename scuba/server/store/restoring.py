"""Fills an empty store from a backup, in one transaction: all of it, as another log, or nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from scuba.errors import ConfigError
from scuba.server.store.engine import Database, Tx
from scuba.server.store.schema import MIGRATIONS, renew_log_epoch, schema_version, step
from scuba.server.store.tables import tables
from scuba.server.store.unpacking import load, verify

T = TypeVar("T")


class Restored(msgspec.Struct, frozen=True):
    """What a restore has made."""

    counts: dict[str, int]
    log_epoch: str
    old_log_epoch: str


def restore(database: Database, path: Path) -> Restored:
    """Verify a backup, then put it into a database that was opened without migrating it.

    The log gets a new epoch, so that nobody takes a position in the old one for one in this
    (1.6). Raises ConfigError for a backup that is not whole, or a store that is not empty.
    """
    perform(database, require_empty)  # before the long look at the file
    header, _ = verify(path)

    def work(tx: Tx) -> Restored:
        require_empty(tx)
        _drop(tx)
        _make(tx, header.schema_version)
        for name in ("principals", "meta"):  # what a new store begins with is in the backup too
            tx.run(f"DELETE FROM {name}")
        counts = load(tx, path).counts
        while step(tx):
            pass
        return Restored(counts, renew_log_epoch(tx), header.log_epoch)

    return perform(database, work)


def perform(database: Database, work: Callable[[Tx], T]) -> T:
    """Return what `work` did, once it is on disk. Raises Broken, or what it raised, undone."""
    return cast(T, database.apply([work], patient=True)[0].unwrap())


def require_empty(tx: Tx) -> None:
    """Return when nobody ever used this store. Raises ConfigError."""
    if schema_version(tx) == 0:
        return
    used = [
        name
        for name, where in (("principals", " WHERE principal_id <> 'system'"), ("threads", ""))
        if tx.one(f"SELECT 1 FROM {name}{where}") is not None
    ]
    if used:
        raise ConfigError(
            f"the store is not empty: it has {' and '.join(used)}",
            "restore into a new file or database, and keep this one",
        )


def _drop(tx: Tx) -> None:
    version = min(schema_version(tx), len(MIGRATIONS))
    for table in reversed(tables(version)):
        tx.run(f"DROP TABLE {table.name}")


def _make(tx: Tx, version: int) -> None:
    while schema_version(tx) < version:
        step(tx)
