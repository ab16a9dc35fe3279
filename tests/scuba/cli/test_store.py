"""`scuba store …` says what it did, and ends with a code that tells what to do."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from scuba.cli.exits import exit_code
from scuba.cli.root import root
from scuba.server.store import open_database
from scuba.server.store.restoring import perform
from scuba.server.store.schema import MIGRATIONS, schema_version, step
from tests.kit.store import open_world

NEWEST = len(MIGRATIONS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def live() -> None:
        async with open_world(tmp_path / "bubble.db") as world:
            await world.thread(await world.user("user-ada"))

    trio.run(live)
    return tmp_path / "bubble.db"


def store(*args: object) -> int:
    return exit_code(root, ["store", *map(str, args)])


def at(path: Path) -> tuple[str, str]:
    return "--store", f"sqlite:{path}"


def test_a_whole_store_ends_with_0_and_another_with_1(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert store("check", *at(path)) == 0
    assert f"sqlite:{path} is whole" in capsys.readouterr().out

    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE threads SET last_seq = 9")
    assert store("check", *at(path)) == 1
    told = capsys.readouterr()
    assert "says it has seq 1 to 9" in told.out
    assert "is not whole" in told.err


def test_the_state_directory_or_the_configuration_names_the_store(path: Path) -> None:
    config = path.parent / "c.json"
    config.write_text(json.dumps({"store": "sqlite:bubble.db"}))

    assert store("check", "--state-dir", path.parent) == 0
    assert store("check", "--config", config) == 0


def test_a_backup_is_restored_into_a_new_store_only(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = path.parent / "backup", path.parent / "new.db"

    assert store("backup", file, *at(path)) == 0
    assert "2 principals, 1 threads, 2 events" in capsys.readouterr().out
    assert store("backup", file, *at(path)) == 78
    assert store("backup", file, "--force", *at(path)) == 0
    assert store("restore", file, *at(new)) == 0
    told = capsys.readouterr().out
    assert "2 principals, 1 threads, 2 events" in told
    assert "log epoch e-" in told
    assert store("restore", file, *at(new)) == 78
    assert "not empty" in capsys.readouterr().err
    assert store("check", *at(new)) == 0


def test_what_is_no_backup_or_not_there_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert store("restore", path, *at(path.parent / "new.db")) == 78
    assert "is not a whole backup" in capsys.readouterr().err
    assert store("restore", path.parent / "nothing", *at(path.parent / "new.db")) == 78
    assert "cannot read the backup" in capsys.readouterr().err


def test_an_old_store_is_migrated_and_before_that_only_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.db"
    with closing(open_database(path, migrate=False)) as database:
        perform(database, step)

    assert store("migrate", "--dry-run", *at(path)) == 0
    assert f"has schema version 1; it would become {NEWEST}" in capsys.readouterr().out
    assert store("check", *at(path)) == 1
    assert store("audit", *at(path)) == 0
    capsys.readouterr()
    assert store("migrate", *at(path)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"schema version {NEWEST}"
    assert store("migrate", *at(path)) == 0
    assert "the newest" in capsys.readouterr().out
    with closing(open_database(path, read_only=True)) as database:
        assert database.look(schema_version) == NEWEST


def test_a_renewed_epoch_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert store("renew-epoch", *at(path)) == 0
    first = capsys.readouterr().out
    assert store("renew-epoch", *at(path)) == 0

    assert first.startswith("log epoch e-")
    assert capsys.readouterr().out != first


def test_the_audit_is_listed_for_people_and_for_programs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert store("audit", *at(path)) == 0
    people = capsys.readouterr().out.splitlines()
    assert store("audit", "--json", *at(path)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert store("audit", "--since", "2100", *at(path)) == 0

    assert any("create  user-ada  user" in line for line in people)
    assert {row["action"] for row in rows} == {"create", "mint", "grant"}
    assert len(rows) == len(people)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("args", "beside"),
    [
        (["check"], True),
        (["audit"], True),
        (["migrate", "--dry-run"], True),
        (["migrate"], False),
        (["renew-epoch"], False),
    ],
)
def test_beside_a_server_only_what_reads_works(
    path: Path, capsys: pytest.CaptureFixture[str], args: list[str], beside: bool
) -> None:
    with closing(open_database(path)):
        assert store(*args, *at(path)) == (0 if beside else 73)

    if not beside:
        assert "is in use by process " in capsys.readouterr().err


@pytest.mark.parametrize("args", [["check"], ["backup", "f"], ["audit"], ["migrate", "--dry-run"]])
def test_a_store_that_is_not_there_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    assert store(*args, *at(tmp_path / "nowhere" / "x.db")) == 78
    assert "cannot open the store" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["migrate"], ["renew-epoch"]])
def test_what_is_no_store_is_not_made_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    (tmp_path / "empty.db").touch()

    assert store(*args, *at(tmp_path / "empty.db")) == 78
    assert "this is no store" in capsys.readouterr().err
    assert (tmp_path / "empty.db").stat().st_size < 10_000


def test_a_wrong_address_is_told_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    assert store("check", "--store", "mysql://ada:hidden-word@host/x") == 78
    assert "hidden-word" not in capsys.readouterr().err
