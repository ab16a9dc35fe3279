"""`scuba store …`: look after a server's store: check it, back it up, restore it, migrate it."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scuba.errors import ConfigError, StateInUse
from scuba.settings import local_state_dir

if TYPE_CHECKING:
    from scuba.server.store import Place
    from scuba.server.store.engine import Database


@click.group()
def store() -> None:
    """Look after a server's store.

    `check`, `backup` and `audit` work beside a running server; the others need it stopped.

    Exit codes: 0 done; 1 `check` found something; 73 a server has the store open; 78 the store or
    a file cannot be used.
    """


def placed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--store`, `--state-dir` and `--config` to a command; it is given `place`."""

    def wrapped(
        url: str | None, state_dir: str | None, config: Path | None, **rest: object
    ) -> object:
        from scuba.server.loading import load_place
        from scuba.server.settings import Flags

        flags = Flags(store=url, state_dir=state_dir)
        place = load_place(config, flags, local_state_dir(os.environ), os.environ)
        return command(place=place, **rest)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    decorated: Callable[..., Any] = wrapped
    for option in (
        click.option(
            "--config", type=click.Path(path_type=Path), help="The server's settings, which say it."
        ),
        click.option("--state-dir", type=click.Path(file_okay=False), help="The server's."),
        click.option("--store", "url", metavar="URL", help="sqlite:PATH, or postgresql://…"),
    ):
        decorated = option(decorated)
    return decorated


@store.command()
@placed
def check(place: "Place") -> int:
    """Say what is wrong with the store: exit code 0 for nothing, 1 for something."""
    from scuba.server.store.checking import check as find
    from scuba.server.store.place import SqlitePlace

    found = 0
    with _opened(place, read_only=True) as database:
        for line in find(database, sqlite=isinstance(place, SqlitePlace)):
            found += 1
            click.echo(line)
    click.echo(f"{place} is whole" if not found else f"{place} is not whole", err=found > 0)
    return 1 if found else 0


@store.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@placed
def migrate(place: "Place", dry_run: bool) -> None:
    """Bring the schema of the store to the newest version.

    A server does so itself when it starts. Make a backup first: there is no way back.
    """
    from scuba.server.store.backup import known_version as known
    from scuba.server.store.restoring import perform
    from scuba.server.store.schema import MIGRATIONS, step

    newest = len(MIGRATIONS)
    with _opened(place, read_only=dry_run) as database:
        version = database.look(known) if dry_run else perform(database, known)
        if version == newest:
            click.echo(f"{place} has schema version {version}, the newest")
            return
        if dry_run:
            click.echo(f"{place} has schema version {version}; it would become {newest}")
            return
        _alone(database, place)
        while perform(database, step):
            version += 1
            click.echo(f"schema version {version}")


@store.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@placed
def backup(place: "Place", file: Path, force: bool) -> None:
    """Write all of the store into FILE, as it is at one moment; a server may go on meanwhile.

    The file is for every engine: `restore` can put it into another kind of store.
    """
    from scuba.server.store.backup import write_backup

    with _opened(place, read_only=True) as database:
        written = write_backup(database, file, force=force)
    click.echo(f"{file}: {_told(written.counts)}, {file.stat().st_size} bytes")


@store.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@placed
def restore(place: "Place", file: Path) -> None:
    """Fill an empty store from FILE; clients will see that it is another log."""
    from scuba.server.store.restoring import restore as fill

    with _opened(place) as database:
        _alone(database, place)
        restored = fill(database, file)
    click.echo(f"{place}: {_told(restored.counts)}")
    click.echo(f"log epoch {restored.log_epoch}, before it was {restored.old_log_epoch}")


@store.command("renew-epoch")
@placed
def renew_epoch(place: "Place") -> None:
    """Give the log a new name after its store was edited by hand, or copied back.

    Clients see another log then, instead of taking what is new for what they know.
    """
    from scuba.server.store.backup import known_version
    from scuba.server.store.restoring import perform
    from scuba.server.store.schema import renew_log_epoch

    with _opened(place) as database:
        perform(database, known_version)
        _alone(database, place)
        epoch = perform(database, renew_log_epoch)
    click.echo(f"log epoch {epoch}")


@store.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--since", help="Only what happened at this time or later, such as 2026-12-01.")
@placed
def audit(place: "Place", as_json: bool, since: str | None) -> None:
    """List who did what to whom, oldest first."""
    import msgspec

    from scuba.server.store.audit import AuditRow, history
    from scuba.server.store.backup import known_version

    def line(row: AuditRow) -> str:
        if as_json:
            return msgspec.json.encode(row).decode()
        return "  ".join(
            (row.at, row.principal_id, row.action, row.subject, row.detail or "")
        ).rstrip()

    with _opened(place, read_only=True) as database:
        database.look(known_version)
        database.look(lambda tx: _print(map(line, history(tx, since or ""))))


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


@contextmanager
def _opened(place: "Place", *, read_only: bool = False) -> "Generator[Database]":
    """Open a store as it is. Raises ConfigError, also for what fails while it is open."""
    from scuba.server.store import open_database
    from scuba.server.store.engine import Broken

    with closing(open_database(place, read_only=read_only, migrate=False)) as database:
        try:
            yield database
        except Broken as error:
            raise ConfigError(f"the store {place} cannot be used: {error}") from error


def _alone(database: "Database", place: "Place") -> None:
    """Return when no server has the store open; SQLite's own lock has told before."""
    from scuba.server.store.place import PostgresPlace

    if not isinstance(place, PostgresPlace):
        return
    from scuba.server.store.neighbours import neighbours
    from scuba.server.store.restoring import perform

    others = perform(database, neighbours)
    if others:
        raise StateInUse(f"the store {place} is in use by {', '.join(others)}", "stop the servers")


def _told(counts: dict[str, int]) -> str:
    shown = ("principals", "threads", "events")
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in shown)
