"""The audit: who did what to whom, when, and in which request (14.4). It only grows."""

from collections.abc import Iterator

import msgspec

from scuba.errors import Problem
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import Ascending
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.schema import schema_version
from scuba.server.store.tables import pages, tables
from scuba.server.store.visibility import is_system_owner


class AuditRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One entry. The order is that of `_COLUMNS`."""

    audit_id: str
    at: str
    principal_id: str
    """Who did it."""
    action: str
    subject: str
    """The principal it was done to."""
    detail: str | None = None
    request_id: str | None = None
    """The `X-Request-Id` of the call, or the id of the connection."""


_ids = Ascending()
_COLUMNS = ", ".join(AuditRow.__struct_fields__)


def audit(w: Write, by: str, action: str, subject: str, detail: str | None = None) -> None:
    """Note who did what to whom, and when. Never a token."""
    w.run(
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (_ids.next("aud_", w.now_ms), w.now, by, action, subject, detail, w.request_id),
    )


def rows(
    tx: Tx, caller: Caller, limit: int, after: str | None
) -> tuple[list[AuditRow], str | None]:
    """Return a page of the audit, oldest first, and where the next begins.

    Raises Problem 403 for all but system owners.
    """
    if not is_system_owner(tx, caller):
        raise Problem(403, "forbidden", "only a system owner reads the audit")
    found = tx.all(
        f"SELECT {_COLUMNS} FROM audit WHERE audit_id > ? ORDER BY audit_id LIMIT ?",
        (*(place(after, 1) or ("",)), check_limit(limit) + 1),
    )
    page, on = cut(found, limit, lambda row: (row[0],))
    return [AuditRow(*row) for row in page], on


def history(tx: Tx, since: str) -> Iterator[AuditRow]:
    """Yield the whole audit from a moment on, oldest first, of a store of any version."""
    (table,) = [table for table in tables(schema_version(tx)) if table.name == "audit"]
    for page in pages(tx, table):
        yield from (AuditRow(*row) for row in page if row[1] >= since)
