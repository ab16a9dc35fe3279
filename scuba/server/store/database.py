"""What the rules and the engine ask of a database: one transaction, and what runs it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from outcome import Outcome

T = TypeVar("T")
Row = tuple[Any, ...]


class Tx(Protocol):
    """One transaction. The SQL is what SQLite and PostgreSQL share, with `?` for arguments."""

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        """Return the first row, or None."""
        ...

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        """Return every row."""
        ...

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        """Return how many rows were changed."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each row of arguments."""
        ...

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        ...


Seal = Callable[[Tx, Sequence[Outcome[object]]], None]
"""The last thing that a transaction does, once it is known what each write became."""


class Broken(Exception):
    """The database could not do it, whatever was asked: disk full, locked, unreadable."""


class Database(Protocol):
    """An engine below the rules. All methods block; they are called in worker threads."""

    @property
    def readers(self) -> int:
        """How many `look`s may run at once beside an `apply`; 0: none, they share its turn."""
        ...

    def apply(
        self,
        works: Sequence[Callable[[Tx], object]],
        seal: Seal | None = None,
        *,
        patient: bool = False,
    ) -> list[Outcome[object]]:
        """Run each so that it fails alone, in one transaction, and commit; one outcome for each.

        One of several may be run more than once; what it did before is undone then.
        `seal` runs last and sees the outcomes; what it raises undoes everything. `patient`: take
        as long as it takes. Raises Broken when nothing was committed, or when that is not known.
        """
        ...

    def look(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent state, changing nothing. Raises Broken."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...
