"""Lists a page at a time: where the last page ended, as text, and what a page may ask."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from scuba.errors import Problem

T = TypeVar("T")

MOST = 1_000
"""Largest page."""


def check_limit(limit: int) -> int:
    """Return the limit. Raises Problem 400 `invalid_query` outside 1 to `MOST`."""
    if not 1 <= limit <= MOST:
        raise Problem(400, "invalid_query", f"limit must be 1 to {MOST}")
    return limit


def place(after: str | None, fields: int) -> tuple[str, ...] | None:
    """Return the sort fields of the last item of the page before, or None for the first page.

    Raises Problem 400 `invalid_query` for what is no continuation of ours.
    """
    if after is None:
        return None
    try:
        found = msgspec.json.decode(after, type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeEncodeError):
        found = ()
    if len(found) != fields:
        raise Problem(400, "invalid_query", "cursor: not one of this list")
    return found


def cut(
    rows: Sequence[T], limit: int, key: Callable[[T], tuple[str, ...]]
) -> tuple[Sequence[T], str | None]:
    """Return at most `limit` of rows read with one to spare, and where the next page begins."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, msgspec.json.encode(key(page[-1])).decode()
