"""What all servers on one database have committed, numbered batch by batch (16.4).

The writers' lock makes the numbers gapless and their order that of the commits. Only PostgreSQL
needs it, so the SQL is PostgreSQL's.
"""

from collections.abc import Iterable

import msgspec

from scuba.server.store.changes import Change, Committed, Missed, Moved
from scuba.server.store.database import Tx

CHANNEL = "scuba_changes"
KEPT_S = 300
"""Who was out of touch for longer looks at everything again."""
AT_ONCE = 500
"""Rows read at once."""

_NOW_MS = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"
_NOTE = f"""
INSERT INTO change_log (change_seq, at_ms, server, changes)
SELECT COALESCE(MAX(change_seq), 0) + 1, {_NOW_MS}, ?, ? FROM change_log RETURNING change_seq
"""
_TRIM = f"DELETE FROM change_log WHERE at_ms < {_NOW_MS} - ? AND change_seq < ?"


class Batch(msgspec.Struct, frozen=True):
    """What one transaction of some server changed."""

    seq: int
    server: str
    changes: tuple[Change, ...]


def note(tx: Tx, server: str, changes: Iterable[Change]) -> int:
    """Add what this transaction changed, and wake the others at its commit. Returns its number."""
    row = tx.one(_NOTE, (server, _written(changes)))
    assert row is not None
    tx.many("SELECT pg_notify(?, ?)", [(CHANNEL, hint(server, row[0]))])
    return int(row[0])


def hint(server: str, seq: int) -> str:
    """Return what the wake-up says: who committed, and up to where."""
    return f"{server} {seq}"


def trim(tx: Tx, below: int) -> None:
    """Forget what is old; the newest always stays, for the next number follows it."""
    tx.run(_TRIM, (KEPT_S * 1_000, below))


def since(tx: Tx, after: int, before: int | None = None) -> list[Batch]:
    """Return the batches after a number in order, at most `AT_ONCE`."""
    rows = tx.all(
        "SELECT change_seq, server, changes FROM change_log WHERE change_seq > ?"
        " AND change_seq < ? ORDER BY change_seq LIMIT ?",
        (after, 2**63 - 1 if before is None else before, AT_ONCE),
    )
    return [Batch(seq, server, _read(changes)) for seq, server, changes in rows]


def head(tx: Tx) -> int:
    """Return the number of the newest batch."""
    row = tx.one("SELECT COALESCE(MAX(change_seq), 0) FROM change_log")
    return 0 if row is None else int(row[0])


def as_heard(change: Change) -> Change:
    """Return a change as other servers are told it: of events, only how far they go."""
    if isinstance(change, Committed):
        return Moved(change.thread_id, change.events[-1].seq)
    return change


def _written(changes: Iterable[Change]) -> str:
    return msgspec.json.encode([as_heard(change) for change in changes]).decode()


def _read(text: str) -> tuple[Change, ...]:
    """Return the changes of a row; a kind that only a newer server knows may mean anything."""
    found: list[Change] = []
    for raw in msgspec.json.decode(text, type=list[msgspec.Raw]):
        try:
            found.append(msgspec.json.decode(raw, type=Change))
        except msgspec.ValidationError:
            found.append(Missed())
    return tuple(found)
