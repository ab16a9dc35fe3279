"""The tables of the journal, as numbered steps that only ever go forward."""

import sqlite3

MIGRATIONS = (
    # 1
    """
    CREATE TABLE checkpoints (
        thread_id TEXT PRIMARY KEY, log_epoch TEXT NOT NULL, seq INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        thread_id TEXT PRIMARY KEY, session_id TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    # 2
    """
    CREATE TABLE runs (
        thread_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, prompt_id TEXT NOT NULL,
        through_seq INTEGER NOT NULL, tries INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE seen (
        thread_id TEXT PRIMARY KEY, seq INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE unsent (
        number INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL, key TEXT NOT NULL,
        run_id TEXT NOT NULL, type TEXT NOT NULL, payload TEXT NOT NULL,
        UNIQUE (thread_id, key)
    );
    CREATE INDEX unsent_by_thread ON unsent (thread_id, number);
    CREATE TABLE put_aside (
        log_epoch TEXT NOT NULL, thread_id TEXT NOT NULL, what TEXT NOT NULL, content TEXT NOT NULL
    );
    """,
    # 3
    """
    ALTER TABLE runs ADD COLUMN resumes TEXT NOT NULL DEFAULT 'nothing';
    """,
    # 4
    """
    CREATE TABLE retired_sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL,
        session_id TEXT NOT NULL, why TEXT NOT NULL, retired_at TEXT NOT NULL
    );
    """,
    # 5
    """
    CREATE TABLE spent (
        thread_id TEXT PRIMARY KEY, cost_usd REAL NOT NULL
    ) WITHOUT ROWID;
    """,
)
"""Step n brings version n - 1 to n. A step that was shipped never changes."""


class TooNew(Exception):
    """The file was written by a later version of scuba."""


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version; all or nothing. Raises TooNew or sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
        )
        for step in MIGRATIONS[_version(connection) :]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        put_meta(connection, "schema_version", str(len(MIGRATIONS)))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    version = int(meta(connection, "schema_version") or 0)
    if version > len(MIGRATIONS):
        raise TooNew(f"version {version}, and this scuba knows {len(MIGRATIONS)}")
    return version


def meta(connection: sqlite3.Connection, name: str) -> str | None:
    """Return one fact about the file itself."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def put_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Keep one fact about the file itself."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
