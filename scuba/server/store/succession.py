"""No thread is left without an enabled owner, its own or an inherited one (3.4)."""

from collections.abc import Generator
from contextlib import contextmanager

from scuba.errors import Problem
from scuba.server.store.engine import Tx

_OWNERLESS = """
SELECT t.thread_id FROM threads t WHERE (t.thread_id IN ({ids}) OR t.holder_id IN ({ids}))
AND NOT EXISTS (
    SELECT 1 FROM grants g JOIN principals p ON p.principal_id = g.principal_id
    WHERE g.target_type = 'thread' AND g.target_id IN (t.thread_id, t.holder_id)
    AND g.role = 'owner' AND (p.disabled_at IS NULL OR p.principal_id = ?)
    AND (g.target_id = t.thread_id OR NOT EXISTS (
        SELECT 1 FROM grants d WHERE d.target_type = 'thread' AND d.target_id = t.thread_id
        AND d.principal_id = g.principal_id)))
"""


@contextmanager
def keeping_owners(tx: Tx, *thread_ids: str, leaving: str = "") -> Generator[None]:
    """Make a change of authority on threads and on those that take participants from them.

    Raises Problem 409 `last_owner` after a change that left one of them without its last owner;
    `leaving`, whom it is about, is an owner as long as it is one at all, disabled or not.
    """
    before = _ownerless(tx, thread_ids, leaving)
    yield
    if not _ownerless(tx, thread_ids, leaving) <= before:
        raise Problem(409, "last_owner", "the last owner of a thread cannot go")


def _ownerless(tx: Tx, thread_ids: tuple[str, ...], counted: str) -> set[str]:
    """Return which have no owner; `counted` is one although it may be disabled."""
    marks = ", ".join("?" * len(thread_ids))
    rows = tx.all(_OWNERLESS.format(ids=marks), (*thread_ids, *thread_ids, counted))
    return {row[0] for row in rows}
