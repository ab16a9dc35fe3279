"""How many statements a call takes, whatever there is: authority is one of them (4.3, 9.1)."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import pytest

from scuba import wire
from scuba.server.store import (
    SYSTEM,
    Caller,
    appending,
    founding,
    granted,
    grants,
    open_database,
    threads,
)
from scuba.server.store import principals as people
from scuba.server.store.authority import role_on, standing
from scuba.server.store.drafts import read_drafts
from scuba.server.store.engine import Database, Row, Tx, Write
from tests.kit.store import on_thread, started, text

T = TypeVar("T")
MANY = 1_000
ADA = Caller(wire.Principal(principal_id="ada", kind="user"))


class Counting:
    """A transaction that remembers what it was asked."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.asked: list[str] = []

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        self.asked.append(sql)
        return self._tx.one(sql, args)

    def all(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        self.asked.append(sql)
        return self._tx.all(sql, args)

    def run(self, sql: str, args: Sequence[object] = ()) -> int:
        self.asked.append(sql)
        return self._tx.run(sql, args)

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        whole = list(rows)
        self.asked += [sql] if whole else []
        self._tx.many(sql, whole)

    def has_table(self, name: str) -> bool:
        return self._tx.has_table(name)


def count(database: Database, work: Callable[[Tx], T]) -> tuple[int, T]:
    """Return how many statements a look takes, and what it found."""

    def counted(tx: Tx) -> tuple[int, T]:
        counting = Counting(tx)
        found = work(counting)
        return len(counting.asked), found

    return database.look(counted)


def write(database: Database, work: Callable[[Write], T]) -> tuple[int, T]:
    """Return how many statements a write takes, and what it returned."""

    def counted(tx: Tx) -> tuple[int, T]:
        counting = Counting(tx)
        done = work(Write(counting, 1_800_000_000_000))
        return len(counting.asked), done

    (outcome,) = database.apply([counted])
    return cast("tuple[int, T]", outcome.unwrap())


def crowd(w: Write) -> str:
    """Make a thread with a bot on it, and a thousand more of both kinds. Returns its id."""
    people.create(w, SYSTEM, wire.NewPrincipal(principal_id="ada", kind="user"))
    people.create(w, ADA, wire.NewPrincipal(principal_id="bot", kind="bot"))
    first = founding.create(w, ADA, wire.NewThread(), None)[1].thread_id
    for number in range(MANY):
        made = founding.create(w, ADA, wire.NewThread(), None)[1]
        body = wire.NewGrant(target=on_thread(made.thread_id), principal_id="bot", role="member")
        grants.put(w, ADA, body)
        if number < founding.CHILDREN:
            founding.create_child(w, ADA, first, wire.NewSubthread())
    return first


@pytest.fixture(scope="module")
def crowded() -> Generator[tuple[Database, str]]:
    with opened() as database:
        yield database, write(database, crowd)[1]


@contextmanager
def opened() -> Generator[Database]:
    database = open_database(None)
    try:
        yield database
    finally:
        database.close()


def test_how_somebody_stands_is_one_statement(crowded: tuple[Database, str]) -> None:
    database, thread_id = crowded

    assert count(database, lambda tx: standing(tx, ADA, thread_id))[0] == 1
    assert count(database, lambda tx: role_on(tx, ADA, "thr_unknown")) == (1, (None, 0))


def test_a_thousand_threads_are_listed_in_one_statement(crowded: tuple[Database, str]) -> None:
    database, _ = crowded
    seen: list[str] = []
    after: str | None = None
    while True:
        number, (page, after) = count(
            database,
            lambda tx, after=after: threads.listing(  # type: ignore[misc]  # bound now
                tx, ADA, parent=None, archived=None, limit=MANY, after=after
            ),
        )
        assert number == 1
        seen += [thread.thread_id for thread in page]
        if after is None:
            break

    assert len(seen) == len(set(seen)) == 2 * MANY + 1


def test_a_thread_is_shown_in_three_and_a_snapshot_too(crowded: tuple[Database, str]) -> None:
    database, thread_id = crowded

    assert count(database, lambda tx: threads.whole(tx, ADA, thread_id))[0] == 3
    number, (_, held) = count(database, lambda tx: granted.snapshot(tx, "bot"))
    assert (number, len(held)) == (3, MANY)


def test_an_append_asks_once_who_appends(crowded: tuple[Database, str]) -> None:
    """The rest: keys, runs, the seq, the events, the runs again."""
    database, thread_id = crowded
    for events, most in (([text("hi")], 4), ([started("r", "k1"), text("x", "r", "k2")], 6)):
        body = wire.NewEvents(events=events)
        drafts = read_drafts(body, None, wire.Limits())
        number, _ = write(
            database,
            lambda w, b=body, d=drafts: appending.append(w, ADA, thread_id, b, d, "e"),  # type: ignore[misc]  # bound now
        )
        assert number <= most


def test_closing_a_thread_with_a_thousand_below_takes_a_few(crowded: tuple[Database, str]) -> None:
    database, thread_id = crowded
    target = on_thread(thread_id)
    put = wire.NewGrant(target=target, principal_id="bot", role="owner")
    write(database, lambda w: grants.put(w, ADA, put))
    lower = wire.NewGrant(target=target, principal_id="bot", role="member")
    number, _ = write(database, lambda w: grants.put(w, ADA, lower))
    assert number <= 14

    _, middle = write(
        database,
        lambda w: founding.create(w, ADA, wire.NewThread(), None),
    )
    parent = middle[1].thread_id
    _, child = write(database, lambda w: founding.create_child(w, ADA, parent, wire.NewSubthread()))
    for _ in range(50):
        below = child[1].thread_id
        write(database, lambda w, b=below: founding.create_child(w, ADA, b, wire.NewSubthread()))  # type: ignore[misc]  # bound now
    closed = wire.ThreadChange(access="direct")
    number, _ = write(database, lambda w: threads.change(w, ADA, child[1].thread_id, closed))
    assert number <= 10
