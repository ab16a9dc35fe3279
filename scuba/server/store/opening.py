"""Opening what a store is kept in: the engine that its place names, at the newest schema."""

from pathlib import Path

from scuba.errors import ConfigError
from scuba.server.store.database import Broken, Database
from scuba.server.store.news import Ear
from scuba.server.store.place import Place, PostgresPlace, SqlitePlace, to_place
from scuba.server.store.schema import migrate as bring_up
from scuba.server.store.sqlite import Sqlite


def open_database(
    where: Place | Path | str | None, *, read_only: bool = False, migrate: bool = True
) -> Database:
    """Open the database of a store. Blocks; whoever calls it closes it.

    `read_only` takes no lock, so it may be opened beside a server, and never migrates. Without
    `migrate` the schema is taken as it is: ask `schema.schema_version`. Raises ConfigError for
    what is no store, is in use, or is of a newer server.
    """
    place = to_place(where)
    database: Database = _open(place, read_only=read_only)
    try:
        if migrate and not read_only:
            bring_up(database)
    except Broken as error:
        database.close()
        raise ConfigError(f"cannot open the store {place}: {error}") from error
    except BaseException:
        database.close()
        raise
    return database


def open_ear(database: Database) -> Ear | None:
    """Begin to hear of other servers' commits, where there can be any. Blocks. Raises Broken."""
    if isinstance(database, Sqlite):
        return None
    from scuba.server.store.ear import PostgresEar  # with the extra that opened the database
    from scuba.server.store.postgres import Postgres

    assert isinstance(database, Postgres)
    return PostgresEar(database.place)


def _open(place: Place, *, read_only: bool) -> Database:
    if isinstance(place, SqlitePlace):
        return Sqlite(place.path, read_only=read_only)
    return _open_postgres(place, read_only=read_only)


def _open_postgres(place: PostgresPlace, *, read_only: bool) -> Database:
    try:
        from scuba.server.store.postgres import Postgres  # an extra
    except ImportError as error:
        raise ConfigError(
            f"the store {place} needs psycopg, which cannot be imported: {error}",
            "pip install 'scuba[postgres]'",
        ) from error
    return Postgres(place, read_only=read_only)
