"""A check finds whatever is broken between the tables, and nothing in an ordinary store."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from scuba import wire
from scuba.server.store import SYSTEM, open_database
from scuba.server.store.checking import SHOWN, check
from tests.kit.postgres import Cluster
from tests.kit.store import event, finished, open_world, started, text, tool_call

SABOTAGE = {
    "UPDATE threads SET last_seq = last_seq + 1": "thread thr_a says it has seq 1 to 13",
    "UPDATE threads SET first_seq = 2": "thread thr_a says it has seq 2 to 12",
    "DELETE FROM events WHERE seq = 5": "its log has 11 events, 1 to 12",
    "UPDATE events SET thread_id = 'thr_x' WHERE seq = 12": "thread thr_x, which is not there",
    "UPDATE events SET principal_id = 'user-x' WHERE seq = 12": "user-x, who is not there, has 1",
    "UPDATE threads SET parent_thread_id = 'thr_x'": "thread thr_a is below thr_x",
    "UPDATE threads SET holder_id = 'thr_x'": "takes its participants from thr_x",
    "UPDATE runs SET last_seq = 99 WHERE run_id = 'r'": "run r on thr_a says it has seq 4 to 99",
    "UPDATE runs SET status = 'open' WHERE run_id = 'r'": "whether a run_finished is there",
    "UPDATE runs SET status = 'bare' WHERE run_id = 'open'": "whether a run_started is there",
    "DELETE FROM runs WHERE run_id = 'r'": "run r on thr_a, which is not there, has 3 events",
    "UPDATE grants SET principal_id = 'user-x' WHERE role = 'member'": "of a principal that",
    "UPDATE grants SET target_id = 'thr_x' WHERE target_type = 'thread'": "on the thread thr_x",
    "UPDATE grants SET target_id = 'bot-x' WHERE target_type = 'principal'": "the principal bot-x",
    "UPDATE grants SET joined_seq = 1 WHERE target_type = 'thread'": "since seq 1, where no",
    "DELETE FROM grant_log WHERE action = 'granted' AND grant_seq = 1": "the grant log of user-ada",
    "UPDATE principals SET grant_seq = 9 WHERE principal_id = 'bot-r'": "should end at 9",
    "UPDATE tokens SET principal_id = 'user-x'": "is of user-x, who is not there",
    "UPDATE thread_keys SET thread_id = 'thr_x'": "the thread key first of system leads to thr_x",
    "INSERT INTO identities VALUES ('i', 's', 'user-x', 'now')": "s of i is bound to user-x",
    "INSERT INTO consumer_cursors VALUES ('thr_a', 'user-ada', 'c', 99, 'now')": "at 99, beyond",
    "INSERT INTO artifacts (artifact_id, thread_id, name, media_type, created_by, created_at,"
    " latest_version) VALUES ('art_1', 'thr_a', 'a', 't', 'u', 'n', 2)": "art_1 says it has 2",
    "INSERT INTO artifact_versions (artifact_id, version, media_type, size, digest, created_by,"
    " created_at, content_id) VALUES ('a', 1, 't', 5, 'd', 'u', 'n', 'c')": "should have 5 bytes",
    "DELETE FROM tool_calls": "the tool call call-1 of run r on thr_a is only in its events",
    "UPDATE tool_calls SET tool_call_id = 'call-2'": "call-2 of run r on thr_a is only in",
    "UPDATE events SET payload = '[' WHERE payload LIKE '%tool-input%'": "call-1 of run r on thr_a",
    "DELETE FROM meta WHERE name = 'log_epoch'": "there is no log epoch",
    "UPDATE meta SET value = '1' WHERE name = 'schema_version'": "`scuba store migrate` brings it",
    "UPDATE meta SET value = '99' WHERE name = 'schema_version'": "of a newer program",
    "DELETE FROM principals WHERE principal_id = 'system'": "the principal system is not there",
}


async def live(path: Path) -> None:
    async with open_world(path) as world:
        ada = await world.user("user-ada")
        bot = await world.bot("bot-r", ada)
        new = wire.NewThread(key="first")
        await world.store.create_thread(SYSTEM, new, thread_id="thr_a")
        await world.grant(SYSTEM, "thr_a", ada, "owner")
        await world.grant(ada, "thr_a", bot, "member")
        await world.append(bot, "thr_a", started("r"), tool_call("call-1", "r"), finished("r"))
        await world.append(bot, "thr_a", started("open"))
        await world.append(ada, "thr_a", text("hello"), text("again"))
        await world.append(ada, "thr_a", *[event("x.test.tick")] * 3)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("lived") / "bubble.db"
    trio.run(live, path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, lived: bytes) -> Path:
    path = tmp_path / "bubble.db"
    path.write_bytes(lived)
    return path


def findings(path: Path) -> list[str]:
    with closing(open_database(path, read_only=True, migrate=False)) as database:
        return list(check(database, sqlite=True))


def sabotage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement)


def test_an_ordinary_store_is_whole(path: Path) -> None:
    assert findings(path) == []


@pytest.mark.parametrize("statement", SABOTAGE)
def test_what_does_not_go_together_is_found(path: Path, statement: str) -> None:
    sabotage(path, statement)

    assert any(SABOTAGE[statement] in line for line in findings(path)), findings(path)


def test_many_findings_of_one_kind_are_counted(path: Path) -> None:
    rows = ", ".join(f"('thr_x{n}', 1, 'evt_{n}', 't', 'system', 'x', '')" for n in range(30))
    sabotage(
        path,
        "INSERT INTO events (thread_id, seq, id, ts, principal_id, type, payload) VALUES " + rows,
    )

    assert f"… and {30 - SHOWN} more like it" in findings(path)


def test_a_file_whose_pages_are_damaged_is_found(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b"call-1") // 4096 * 4096
    path.write_bytes(data[:place] + b"\xff" * 4096 + data[place + 4096 :])

    assert any("SQLite: " in line or "cannot be read" in line for line in findings(path))


def test_a_file_that_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    assert findings(tmp_path / "empty.db") == ["this is no store: it has no tables of ours"]


def test_every_rule_is_one_that_postgres_can_be_asked(postgres: Cluster) -> None:
    with postgres.database() as url:
        open_database(url).close()
        with closing(open_database(url, read_only=True)) as database:
            assert list(check(database, sqlite=False)) == []
