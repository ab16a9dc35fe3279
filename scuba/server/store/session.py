"""Sessions with a PostgreSQL server: opened, bounded in time, and checked for what we need."""

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from scuba.errors import ConfigError, ScubaError
from scuba.server.store.place import PostgresPlace

Session = psycopg.Connection[tuple[Any, ...]]

OLDEST = 130_000
STATEMENT_S = 30
"""Longest time for one statement, the wait for another server's batch included."""
LOCK_S = 15
"""Longest wait for another server's batch: longer than that one may be silent."""
SILENT_S = 10
"""A transaction whose server says nothing for so long is undone, and holds nobody up any more."""
PREPARED = 1_000
"""Statements a session keeps prepared; lists of keys make one of each length."""

_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "scuba",
}
_PASSING = ("starting up", "shutting down", "recovery", "too many", "connection slots")
"""What the server says of itself when another attempt may be let in."""


def open_session(place: PostgresPlace, *, read_only: bool) -> Session:
    """Return a session of ours. Raises psycopg.Error."""
    given = {name: str(value) for name, value in conninfo_to_dict(place.url).items()}
    asked = {**_PATIENCE, **given, "client_encoding": "utf8"}
    session: Session = psycopg.Connection.connect(
        make_conninfo(**asked),
        autocommit=True,
        prepare_threshold=0,
        cursor_factory=psycopg.RawCursor,
    )
    session.prepared_max = PREPARED
    try:
        _bound(session, read_only=read_only)
    except BaseException:
        session.close()
        raise
    return session


def open_first(place: PostgresPlace, *, read_only: bool) -> Session:
    """Return a session with a server that we can use. Raises ConfigError, or ScubaError to retry.

    No text of libpq is repeated that may hold a part of the URL.
    """
    try:
        conninfo_to_dict(place.url)
    except psycopg.Error:
        raise ConfigError(f"the URL of the store {place} is none that libpq can read") from None
    try:
        session = open_session(place, read_only=read_only)
    except psycopg.Error as error:
        raise _refusal(place, error) from None
    try:
        _check(session, place, read_only=read_only)
    except BaseException:
        session.close()
        raise
    return session


def told(error: psycopg.Error) -> str:
    """Return what went wrong in one line without the values, which may be anybody's words."""
    text = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"


def _bound(session: Session, *, read_only: bool) -> None:
    settings = {
        "statement_timeout": f"{STATEMENT_S}s",
        "lock_timeout": f"{LOCK_S}s",
        "idle_in_transaction_session_timeout": f"{SILENT_S}s",
        "default_transaction_read_only": "on" if read_only else "off",
    }
    calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    session.execute(f"SELECT {calls}".encode())
    if not read_only:  # a receipt means "on disk" (16.1); stricter settings stay as they are
        session.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') = 'off'"
        )


def _check(session: Session, place: PostgresPlace, *, read_only: bool) -> None:
    version = session.info.server_version
    if version < OLDEST:
        raise ConfigError(
            f"the store {place} is on PostgreSQL {version // 10_000}, the server needs "
            f"{OLDEST // 10_000} or newer",
            "use a newer PostgreSQL",
        )
    encoding = session.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigError(
            f"the database of the store {place} has the encoding {encoding}, it must be UTF8",
            "create one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )
    if not read_only and session.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
        raise ConfigError(
            f"the store {place} is on a standby, which takes no writes", "name the primary"
        )


def _refusal(place: PostgresPlace, error: psycopg.Error) -> ScubaError:
    text = str(error).strip()
    what = f"cannot open the store {place}: {text.partition(chr(10))[0]}"
    if "FATAL" in text and not any(word in text for word in _PASSING):
        return ConfigError(what, "check user, password (PGPASSWORD, .pgpass) and database")
    return ScubaError(what, "check that PostgreSQL runs there and can be reached, then start again")
