"""A census: how much the actors hold now. At rest only threads and sessions are left."""

from collections.abc import Iterable

import msgspec


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """What is held, counted. A number that grows while the work does not is a leak."""

    threads: int = 0
    """Joined, or still on the way out."""
    runs: int = 0
    """In hand."""
    messages: int = 0
    """Of others: still arriving, or waiting to be answered."""
    calls: int = 0
    """Tool calls of which a question, an answer or a decision is kept."""
    events: int = 0
    """Waiting to be appended, or on the way."""
    keys: int = 0
    """Runs whose keys are counted, and receipts that the journal was not told of."""
    sessions: int = 0
    """With a process, or about to have one."""
    waiting: int = 0
    """Sessions that wait for a place."""


def total(parts: Iterable[Census]) -> Census:
    """Return the sum, field by field."""
    counted = list(parts)
    names = Census.__struct_fields__
    return Census(**{name: sum(getattr(part, name) for part in counted) for name in names})
