"""PostgreSQL as the engine: lost sessions, hung servers, uncertain commits, and what is refused."""

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
import trio
from outcome import Error, Outcome, Value

from scuba import wire
from scuba.errors import ConfigError, ScubaError
from scuba.server.store import SYSTEM, open_database, open_store, postgres, schema, session
from scuba.server.store.database import Broken, Database, Tx
from scuba.server.store.postgres import Postgres
from scuba.server.store.postgres_tx import PostgresTx, Rejected
from tests.kit.postgres import Cluster
from tests.kit.store import refused, text

NOTE = "INSERT INTO meta (name, value) VALUES (?, 'noted')"


def note(name: str) -> Callable[[Tx], int]:
    return lambda tx: tx.run(NOTE, (name,))


def noted(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT name FROM meta WHERE value = 'noted' ORDER BY name")]


def end_sessions(url: str) -> None:
    """Have the server end everybody's sessions, as when it is restarted."""
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def database(shared: str) -> Generator[Database]:
    with closing(open_database(shared)) as opened:
        yield opened


def test_a_failing_write_fails_alone_whenever_its_error_shows(database: Database) -> None:
    def late(tx: Tx) -> None:
        tx.many(NOTE, [("first",), ("late",)])  # the error comes with the next answer

    def asks_on(tx: Tx) -> None:
        late(tx)
        noted(tx)

    def refuses(tx: Tx) -> None:
        note("refused")(tx)
        raise LookupError

    def only_asks(tx: Tx) -> None:
        noted(tx)
        raise LookupError

    works = [note("first"), late, note("a"), asks_on, refuses, only_asks, note("b"), noted]
    got = database.apply(works)
    kinds = [type(one.error) if isinstance(one, Error) else Value for one in got]

    assert kinds == [Value, Rejected, Value, Rejected, LookupError, LookupError, Value, Value]
    assert database.look(noted) == ["a", "b", "first"]
    for _ in range(3):  # what was prepared before the rollbacks is prepared again
        assert database.apply([refuses, noted])[1] == Value(["a", "b", "first"])


def test_a_batch_is_tried_in_one_go_and_anew_only_when_one_write_must_be_undone(
    database: Database,
) -> None:
    runs: list[str] = []

    def counted(name: str, rows: list[tuple[str]]) -> Callable[[Tx], None]:
        def work(tx: Tx) -> None:
            runs.append(name)
            tx.many(NOTE, rows)

        return work

    seals: list[list[type]] = []

    def seal(tx: Tx, outcomes: Sequence[Outcome[object]]) -> None:
        seals.append([type(outcome) for outcome in outcomes])
        tx.many(NOTE, [("sealed",)])

    database.apply([counted("a", [("a",)]), counted("b", [("b",)])])
    assert runs == ["a", "b"]
    # Only the commit brings the error of the last one to light
    got = database.apply([counted("c", [("c",)]), counted("d", [("d",), ("a",)])], seal)

    assert [type(outcome) for outcome in got] == [Value, Error]
    assert seals[-1] == [Value, Error]
    assert runs == ["a", "b", "c", "d", "c", "d"]
    assert database.look(noted) == ["a", "b", "c", "sealed"]


def test_an_error_is_told_without_the_values(database: Database) -> None:
    (got,) = database.apply([lambda tx: tx.many(NOTE, [("private words",), ("private words",)])])

    assert isinstance(got, Error)
    assert "UniqueViolation" in str(got.error)
    assert "private" not in f"{got.error} {got.error.__cause__} {got.error.__context__}"


def test_what_comes_last_sees_the_outcomes_and_undoes_all_when_it_fails(
    database: Database,
) -> None:
    seen: list[int] = []
    database.apply([note("a"), lambda _: 1 // 0], lambda _, got: seen.append(len(got)))

    def fail(tx: Tx, _: object) -> None:
        tx.run("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(Broken):
        database.apply([note("b")], fail)
    database.apply([note("c")])

    assert seen == [2]
    assert database.look(noted) == ["a", "c"]


def test_lost_sessions_are_opened_again_and_nobody_notices(shared: str, database: Database) -> None:
    database.apply([note("a")])
    assert database.look(noted) == ["a"]
    end_sessions(shared)

    for _ in range(session.PREPARED // 100):
        assert database.look(noted) == ["a"]
    end_sessions(shared)
    assert database.apply([note("b")]) == [Value(1)]


def test_a_session_lost_amid_a_batch_undoes_it(shared: str, database: Database) -> None:
    def lose(tx: Tx) -> None:
        note("b")(tx)
        end_sessions(shared)
        noted(tx)

    with pytest.raises(Broken):
        database.apply([note("a"), lose])

    assert database.apply([note("c"), noted])[1] == Value(["c"])


async def test_a_commit_whose_answer_is_lost_is_refused_and_the_repeat_is_a_receipt(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(shared) as store:
        await store.create_thread(SYSTEM, wire.NewThread(), thread_id="thr_1")
        batch = wire.NewEvents(events=[text("hi", key="k")])
        with monkeypatch.context() as patch:
            patch.setattr(PostgresTx, "ended", None)
            assert await refused(store.append(SYSTEM, "thr_1", batch)) == (503, "unavailable")
        new, receipts = await store.append(SYSTEM, "thr_1", batch)
        log = await store.read("system", "thr_1", 0, limit=9, max_bytes=10**6)

    assert not new
    assert receipts.events[0].duplicate
    assert [event.key for event in log] == [None, "k"]


def test_a_server_that_hangs_in_its_batch_holds_the_others_up_for_a_bounded_time(
    shared: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SILENT_S", 1)
    hangs, go_on = threading.Event(), threading.Event()

    def hang(tx: Tx) -> None:
        note("hung")(tx)
        hangs.set()
        assert go_on.wait(20)
        noted(tx)

    with (
        closing(open_database(shared)) as hung,
        ThreadPoolExecutor(1) as thread,
    ):
        batch = thread.submit(hung.apply, [hang])
        assert hangs.wait(10)
        assert database.apply([note("other")]) == [Value(1)]  # waits for a second, not for ever
        go_on.set()
        with pytest.raises(Broken):
            batch.result(10)
        assert hung.apply([note("again")]) == [Value(1)]

    assert database.look(noted) == ["again", "other"]


def test_a_writer_waits_for_another_no_longer_than_it_must(
    shared: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCK_S", 1)
    with psycopg.connect(shared) as other, closing(open_database(shared)) as waiting:
        other.execute(f"SELECT pg_advisory_xact_lock({postgres.WRITER_LOCK})".encode())
        with pytest.raises(Broken, match="LockNotAvailable"):
            waiting.apply([note("a")])
        assert database.look(noted) == []  # readers wait for nobody


def test_reading_is_one_snapshot_and_changes_nothing(shared: str, database: Database) -> None:
    def between(tx: Tx) -> tuple[list[str], list[str]]:
        before = noted(tx)
        database.apply([note("new")])
        return before, noted(tx)

    assert database.look(between) == ([], [])
    with pytest.raises(Broken, match="ReadOnly"):
        database.look(note("never"))
    assert database.look(noted) == ["new"]
    with closing(open_database(shared, read_only=True)) as reader:
        assert reader.look(noted) == ["new"]
        with pytest.raises(Broken, match="ReadOnly"):
            reader.apply([note("never")])


def test_texts_are_ordered_by_their_bytes_whatever_the_database_does(shared: str) -> None:
    with psycopg.connect(shared) as own:
        rows = own.execute(
            "SELECT table_name, column_name, collation_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type = 'text'"
        ).fetchall()

    assert len(rows) > 50
    assert {row[2] for row in rows} == {"C"}


def test_two_servers_may_start_at_once_on_an_empty_database(postgres: Cluster) -> None:
    with postgres.database() as url, ThreadPoolExecutor(2) as threads:
        databases = list(threads.map(open_database, [url, url]))
        epochs = {database.look(schema.log_epoch) for database in databases}
        versions = {database.look(schema.schema_version) for database in databases}
        for database in databases:
            database.close()

    assert len(epochs) == 1
    assert versions == {len(schema.MIGRATIONS)}


def test_a_store_of_a_newer_server_is_left_alone(shared: str, database: Database) -> None:
    newer = "UPDATE meta SET value = '99' WHERE name = 'schema_version'"
    back = f"UPDATE meta SET value = '{len(schema.MIGRATIONS)}' WHERE name = 'schema_version'"
    database.apply([lambda tx: tx.run(newer)])
    with pytest.raises(ConfigError, match="schema version 99"):
        open_database(shared)
    database.apply([lambda tx: tx.run(back)])


def test_a_database_that_does_not_do_is_refused_with_a_reason(
    postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.database(encoding="LATIN1") as url, pytest.raises(ConfigError, match="LATIN1"):
        open_database(url)
    with pytest.raises(ConfigError, match="does not exist"):
        open_database(postgres.url("nowhere"))
    with pytest.raises(ScubaError, match="No such file") as caught:
        open_database("postgresql://ada@/bubble?host=/nowhere")
    assert caught.value.exit_code == 1  # it may come up later: a supervisor tries again

    monkeypatch.setattr(session, "OLDEST", 990_000)
    with pytest.raises(ConfigError, match="needs 99"):
        open_database(postgres.url())


def test_without_psycopg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "scuba.server.store.postgres")
    monkeypatch.delitem(sys.modules, "scuba.server.store.postgres_tx")
    monkeypatch.delitem(sys.modules, "scuba.server.store.session")
    with pytest.raises(ConfigError) as caught:
        open_database("postgresql://ada@db/bubble")

    assert "scuba[postgres]" in caught.value.hint


async def test_a_server_hears_of_others_again_after_all_its_sessions_were_lost(
    shared: str,
) -> None:
    async with open_store(shared) as one, open_store(shared) as other:
        heard = trio.Event()
        await one.create_thread(SYSTEM, wire.NewThread(), thread_id="thr_1")
        await trio.to_thread.run_sync(end_sessions, shared)
        other.listen(lambda _: heard.set())
        await one.append(SYSTEM, "thr_1", wire.NewEvents(events=[text("hi")]))
        with trio.fail_after(5):
            await heard.wait()


def test_a_writer_keeps_commits_durable_even_where_the_database_does_not(shared: str) -> None:
    with psycopg.connect(shared, autocommit=True) as own:
        own.execute("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            with closing(open_database(shared)) as opened:
                (got,) = opened.apply([lambda tx: tx.one("SHOW synchronous_commit")])
        finally:
            own.execute("ALTER ROLE postgres RESET synchronous_commit")

    assert isinstance(opened, Postgres)
    assert got == Value(("on",))
