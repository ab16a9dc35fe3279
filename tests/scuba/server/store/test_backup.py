"""A backup holds everything, moves between engines, and is whole or refused."""

import gzip
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scuba import wire
from scuba.errors import ConfigError
from scuba.server.store import open_database
from scuba.server.store.backup import write_backup
from scuba.server.store.checking import check
from scuba.server.store.engine import Tx
from scuba.server.store.restoring import Restored, perform, restore
from scuba.server.store.schema import MIGRATIONS, log_epoch, schema_version, step
from scuba.server.store.tables import pages, tables
from scuba.server.store.unpacking import Damaged, verify
from tests.kit.postgres import Cluster
from tests.kit.store import World, event, finished, open_world, started, text, tool_call

NEWEST = len(MIGRATIONS)
Rows = dict[str, list[Any]]


async def inhabit(world: World) -> None:
    """Leave something in as many tables as an ordinary life does, in some more than two pages."""
    ada = await world.user("user-ada", email="ada@example.com", display_name="Ada ☂")
    bot = await world.bot("bot-r", ada)
    thread = await world.thread(ada, title="A", key="first")
    await world.grant(ada, thread, bot, "member")
    await world.append(ada, thread, text("hel\n\u2028lo", key="k/1"), text("again"))
    await world.append(bot, thread, started("r"), tool_call("call-1", "r"), finished("r"))
    await world.append(bot, thread, started("open"))
    await world.store.create_subthread(bot, thread, wire.NewSubthread(key="below"))
    await world.store.mint_token(ada, "bot-r", wire.NewToken(label="x", revoke_others=True))
    await world.append(ada, thread, *[event("x.test.tick", {"n": n}) for n in range(250)])
    await world.append(ada, thread, *[event("x.test.tick", {"n": n}) for n in range(250)])


def furnish(tx: Tx) -> None:
    """Leave bytes of every value where artifacts are, in more than a page."""
    tx.run(
        "INSERT INTO artifacts (artifact_id, thread_id, name, media_type, created_by, created_at,"
        " latest_version) SELECT 'art_1', MIN(thread_id), 'a', 'text/plain', 'user-ada', 'now', 1"
        " FROM threads"
    )
    tx.run(
        "INSERT INTO artifact_versions (artifact_id, version, media_type, size, digest, created_by,"
        " created_at, content_id) VALUES ('art_1', 1, 'text/plain', 5120, ?, 'user-ada', 'now',"
        " 'c1')",
        (hashlib.sha256().digest(),),
    )
    pieces = [("c1", start, bytes(range(256))) for start in range(0, 5120, 256)]
    tx.many("INSERT INTO artifact_pieces (content_id, start, piece) VALUES (?, ?, ?)", pieces)


@pytest.fixture
async def lived(tmp_path: Path) -> Path:
    path = tmp_path / "lived.db"
    async with open_world(path) as world:
        await inhabit(world)
    with closing(open_database(path)) as database:
        perform(database, furnish)
    return path


def everything(where: Path | str) -> Rows:
    """Return every row of a store, but for the name of its log."""

    def read(tx: Tx) -> Rows:
        found = {
            table.name: [row for page in pages(tx, table) for row in page]
            for table in tables(schema_version(tx))
        }
        found["meta"] = [row for row in found["meta"] if row[0] != "log_epoch"]
        return found

    with closing(open_database(where, read_only=True)) as database:
        return database.look(read)


def epoch(where: Path | str) -> str:
    with closing(open_database(where, read_only=True)) as database:
        return database.look(log_epoch)


def back_up(where: Path | str, file: Path, *, force: bool = False) -> Path:
    with closing(open_database(where, read_only=True, migrate=False)) as database:
        write_backup(database, file, force=force)
    return file


def restored(where: Path | str, file: Path) -> Restored:
    with closing(open_database(where, migrate=False)) as database:
        return restore(database, file)


def findings(where: Path | str) -> list[str]:
    with closing(open_database(where, read_only=True)) as database:
        return list(check(database, sqlite=isinstance(where, Path)))


async def test_a_restored_store_has_every_row_and_is_another_log(
    lived: Path, tmp_path: Path
) -> None:
    file = back_up(lived, tmp_path / "backup")
    new = tmp_path / "new.db"

    made = restored(new, file)

    assert everything(new) == everything(lived)
    assert made.counts["events"] > 500
    assert made.old_log_epoch == epoch(lived) != epoch(new) == made.log_epoch
    assert findings(new) == []
    async with open_world(new) as world:
        assert world.store.log_epoch == made.log_epoch


async def test_a_store_moves_to_postgres_and_back(
    lived: Path, tmp_path: Path, postgres: Cluster
) -> None:
    with postgres.database() as url:
        restored(url, back_up(lived, tmp_path / "there"))

        assert everything(url) == everything(lived)
        assert findings(url) == []
        back = tmp_path / "back.db"
        restored(back, back_up(url, tmp_path / "home"))
    assert everything(back) == everything(lived)


async def test_a_backup_is_taken_beside_a_server(tmp_path: Path) -> None:
    path = tmp_path / "bubble.db"
    async with open_world(path) as world:
        await inhabit(world)
        file = back_up(path, tmp_path / "backup")
        await world.user("user-late")

    restored(tmp_path / "new.db", file)
    assert "user-late" in str(everything(path)["principals"])
    assert "user-late" not in str(everything(tmp_path / "new.db")["principals"])


async def test_it_is_for_its_user_only_and_replaces_nothing(lived: Path, tmp_path: Path) -> None:
    file = back_up(lived, tmp_path / "backup")
    assert file.stat().st_mode & 0o777 == 0o600

    with pytest.raises(ConfigError, match="is there already"):
        back_up(lived, file)
    back_up(lived, file, force=True)
    with pytest.raises(ConfigError, match="cannot write"):
        back_up(lived, tmp_path / "nowhere" / "backup")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


async def test_what_was_cut_or_changed_is_refused_and_nothing_is_made(
    lived: Path, tmp_path: Path
) -> None:
    data = back_up(lived, tmp_path / "backup").read_bytes()
    size = len(data)
    damaged = [data[:place] for place in (0, 1, 10, 30, size // 2, size - 9, size - 1)]
    damaged += [
        data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        for place in (0, 20, size // 3, size // 2, size - 6)
    ]
    damaged += [data + data, data + b"x", b"SQLite format 3\0", gzip.compress(b"{}\n")]

    for number, content in enumerate(damaged):
        file, new = tmp_path / f"bad{number}", tmp_path / f"new{number}.db"
        file.write_bytes(content)

        with pytest.raises(Damaged, match="not a whole backup"):
            restored(new, file)
        with closing(open_database(new, read_only=True)) as database:
            assert database.look(schema_version) == 0


def reworked(file: Path, change: Callable[[list[bytes]], None]) -> Path:
    """Write a backup anew with other lines, soundly compressed."""
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    change(lines)
    file.write_bytes(gzip.compress(b"".join(lines)))
    return file


def drop_a_row(lines: list[bytes]) -> None:
    del lines[next(place for place, line in enumerate(lines) if b'"x.test.tick"' in line)]


def change_a_row(lines: list[bytes]) -> None:
    place = next(place for place, line in enumerate(lines) if b"user-ada" in line)
    lines[place] = lines[place].replace(b"user-ada", b"user-eve")


def forget_a_table(lines: list[bytes]) -> None:
    lines[:] = [line for line in lines if b"tool_calls" not in line or b"counts" in line]


@pytest.mark.parametrize("change", [drop_a_row, change_a_row, forget_a_table])
async def test_lines_that_are_not_those_of_the_trailer_are_refused(
    lived: Path, tmp_path: Path, change: Callable[[list[bytes]], None]
) -> None:
    file = reworked(back_up(lived, tmp_path / "backup"), change)

    with pytest.raises(Damaged):
        verify(file)


async def test_what_changes_after_it_was_verified_undoes_the_restore(
    lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what stands for a restore that is killed in the middle: it is one transaction."""
    file = back_up(lived, tmp_path / "backup")
    sound = verify(file)
    reworked(file, drop_a_row)
    monkeypatch.setattr("scuba.server.store.restoring.verify", lambda _: sound)

    with pytest.raises(Damaged):
        restored(tmp_path / "new.db", file)
    with closing(open_database(tmp_path / "new.db", read_only=True)) as database:
        assert database.look(schema_version) == 0


async def test_a_backup_of_a_newer_program_is_refused_by_name(lived: Path, tmp_path: Path) -> None:
    def of_the_future(lines: list[bytes]) -> None:
        header = json.loads(lines[0])
        lines[0] = json.dumps({**header, "schemaVersion": NEWEST + 1}).encode() + b"\n"

    file = reworked(back_up(lived, tmp_path / "backup"), of_the_future)

    with pytest.raises(ConfigError, match="made by a newer program"):
        restored(tmp_path / "new.db", file)


async def test_a_store_in_use_is_never_written_over(lived: Path, tmp_path: Path) -> None:
    file = back_up(lived, tmp_path / "backup")
    before = everything(lived)

    with pytest.raises(ConfigError, match="not empty: it has principals and threads"):
        restored(lived, file)
    assert everything(lived) == before


async def test_a_store_that_nobody_has_used_is_filled(lived: Path, tmp_path: Path) -> None:
    file = back_up(lived, tmp_path / "backup")
    open_database(tmp_path / "fresh.db").close()

    restored(tmp_path / "fresh.db", file)

    assert everything(tmp_path / "fresh.db") == everything(lived)


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_the_backup_of_an_old_store_is_restored_to_the_newest_schema(
    tmp_path: Path, version: int
) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with closing(open_database(old, migrate=False)) as database:
        while perform(database, schema_version) < version:
            perform(database, step)
        perform(database, _one_principal)

    restored(new, back_up(old, tmp_path / "backup"))

    with closing(open_database(new, read_only=True)) as database:
        assert database.look(schema_version) == NEWEST
    assert "user-old" in str(everything(new)["principals"])
    assert findings(new) == []


def _one_principal(tx: Tx) -> None:
    tx.run(
        "INSERT INTO principals (principal_id, kind, discoverable, open_to_invites, folded,"
        " created_at) VALUES ('user-old', 'user', 1, 1, 'user-old', 'then')"
    )


def test_a_file_that_is_no_store_is_not_backed_up(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()

    with pytest.raises(ConfigError, match="no store"):
        back_up(tmp_path / "empty.db", tmp_path / "backup")
    with pytest.raises(ConfigError, match="cannot open"):
        back_up(tmp_path / "nowhere.db", tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
