"""The tables (16.3), as numbered migrations: what a shipped version made, the next one can read.

A migration is never edited once it has shipped; a change is the next number.
"""

import secrets

from scuba.errors import ConfigError
from scuba.server.store.database import Database, Tx

_FIRST = """
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE principals (
    principal_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    display_name TEXT,
    avatar_url TEXT,
    email TEXT,
    discoverable INTEGER NOT NULL,
    open_to_invites INTEGER NOT NULL,
    folded TEXT NOT NULL,
    created_by TEXT,
    key TEXT,
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    grant_seq BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX principals_by_key ON principals (created_by, key) WHERE key IS NOT NULL;

CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    principal_id TEXT NOT NULL REFERENCES principals,
    hash BLOB NOT NULL UNIQUE,
    tail TEXT NOT NULL,
    label TEXT,
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    expires_at TEXT,
    revoked_at TEXT
);
CREATE INDEX tokens_by_principal ON tokens (principal_id, created_at);

CREATE TABLE grants (
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    principal_id TEXT NOT NULL REFERENCES principals,
    role TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    joined_seq BIGINT,
    PRIMARY KEY (target_type, target_id, principal_id)
);
CREATE INDEX grants_by_principal ON grants (principal_id, target_type, target_id);

CREATE TABLE grant_log (
    principal_id TEXT NOT NULL REFERENCES principals,
    grant_seq BIGINT NOT NULL,
    action TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    role TEXT,
    granted_by TEXT,
    created_at TEXT,
    joined_seq BIGINT,
    PRIMARY KEY (principal_id, grant_seq)
);

CREATE TABLE threads (
    thread_id TEXT PRIMARY KEY,
    parent_thread_id TEXT REFERENCES threads,
    holder_id TEXT NOT NULL,
    depth INTEGER NOT NULL,
    title TEXT,
    access TEXT NOT NULL,
    members_can_invite INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    archived_at TEXT,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    last_event_at TEXT NOT NULL
);
CREATE INDEX threads_by_parent ON threads (parent_thread_id);
CREATE INDEX threads_by_holder ON threads (holder_id);

CREATE TABLE thread_keys (
    principal_id TEXT NOT NULL REFERENCES principals,
    parent_id TEXT NOT NULL,
    key TEXT NOT NULL,
    thread_id TEXT NOT NULL REFERENCES threads,
    PRIMARY KEY (principal_id, parent_id, key)
);

CREATE TABLE events (
    thread_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    ts TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    type TEXT NOT NULL,
    run_id TEXT,
    key TEXT,
    role TEXT,
    bare_left INTEGER,
    digest BLOB,
    payload TEXT NOT NULL,
    PRIMARY KEY (thread_id, seq)
) WITHOUT ROWID;
CREATE UNIQUE INDEX events_by_key ON events (thread_id, principal_id, key) WHERE key IS NOT NULL;
CREATE INDEX events_by_run ON events (thread_id, run_id, seq) WHERE run_id IS NOT NULL;

CREATE TABLE runs (
    thread_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (thread_id, run_id)
);
CREATE INDEX runs_open_by_author ON runs (principal_id, thread_id) WHERE status = 'open';
CREATE INDEX runs_open_by_thread ON runs (thread_id) WHERE status = 'open';

CREATE TABLE tool_calls (
    thread_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    PRIMARY KEY (thread_id, run_id, tool_call_id)
);

CREATE TABLE audit (
    audit_id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT
);

INSERT INTO principals
    (principal_id, kind, discoverable, open_to_invites, folded, created_at)
    VALUES ('system', 'system', 0, 0, 'system', '1970-01-01T00:00:00.000Z');
"""

_IDENTITIES = """
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    principal_id TEXT NOT NULL REFERENCES principals,
    created_at TEXT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_by_principal ON identities (principal_id);

ALTER TABLE audit ADD COLUMN request_id TEXT;
"""

_CURSORS_AND_ARTIFACTS = """
CREATE TABLE consumer_cursors (
    thread_id TEXT NOT NULL REFERENCES threads,
    principal_id TEXT NOT NULL REFERENCES principals,
    consumer TEXT NOT NULL,
    seq BIGINT NOT NULL,
    updated_at TEXT NOT NULL,
    PRIMARY KEY (thread_id, principal_id, consumer)
);

CREATE TABLE artifacts (
    artifact_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    key TEXT,
    latest_version BIGINT NOT NULL
);
CREATE INDEX artifacts_by_thread ON artifacts (thread_id, artifact_id);
CREATE UNIQUE INDEX artifacts_by_key ON artifacts (thread_id, created_by, key)
    WHERE key IS NOT NULL;

CREATE TABLE artifact_versions (
    artifact_id TEXT NOT NULL REFERENCES artifacts,
    version BIGINT NOT NULL,
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    digest BLOB NOT NULL,
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    key TEXT,
    content_id TEXT NOT NULL,
    PRIMARY KEY (artifact_id, version)
);
CREATE UNIQUE INDEX artifact_versions_by_key ON artifact_versions (artifact_id, created_by, key)
    WHERE key IS NOT NULL;

CREATE TABLE artifact_pieces (
    content_id TEXT NOT NULL,
    start BIGINT NOT NULL,
    piece BLOB NOT NULL,
    PRIMARY KEY (content_id, start)
);

CREATE TABLE artifact_uploads (
    content_id TEXT PRIMARY KEY,
    begun_at TEXT NOT NULL
);
"""

_GRANT_KEYS = """
CREATE TABLE grant_keys (
    principal_id TEXT NOT NULL REFERENCES principals,
    key TEXT NOT NULL,
    asked TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (principal_id, key)
);
"""

_CHANGE_LOG = """
CREATE TABLE change_log (
    change_seq BIGINT PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    server TEXT NOT NULL,
    changes TEXT NOT NULL
);
"""

_EVENTS_BY_TYPE = """
CREATE INDEX events_by_type ON events (thread_id, type, seq) WHERE type <> 'message_part';
"""

MIGRATIONS = (
    _FIRST,
    _IDENTITIES,
    _CURSORS_AND_ARTIFACTS,
    _GRANT_KEYS,
    _CHANGE_LOG,
    _EVENTS_BY_TYPE,
)


def migrate(database: Database) -> None:
    """Bring an open database to the newest version, one transaction for each step.

    Each step looks for itself where it begins, so two servers may start at once. Raises
    ConfigError when the database was made by a newer server, Broken when it cannot be written.
    """
    while database.apply([step], patient=True)[0].unwrap():
        pass


def schema_version(tx: Tx) -> int:
    """Return the number of the last migration that was done; 0: this is no store yet."""
    if not tx.has_table("meta"):
        return 0
    row = tx.one("SELECT value FROM meta WHERE name = 'schema_version'")
    return int(row[0]) if row is not None else 0


def log_epoch(tx: Tx) -> str:
    """Return the name of this log (1.6)."""
    row = tx.one("SELECT value FROM meta WHERE name = 'log_epoch'")
    if row is None:
        raise ConfigError("the store has no log epoch", "restore it from a backup")
    return str(row[0])


def cursor_key(tx: Tx) -> bytes:
    """Return the secret that seals list cursors on every server of this store; made once."""
    made = ("cursor_key", secrets.token_hex(32))
    if tx.one("SELECT 1 FROM meta WHERE name = 'cursor_key'") is None:
        tx.run("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", made)
    row = tx.one("SELECT value FROM meta WHERE name = 'cursor_key'")
    assert row is not None
    return bytes.fromhex(row[0])


def renew_log_epoch(tx: Tx) -> str:
    """Make this another log than the one it was (1.6). Returns its new name."""
    epoch = f"e-{secrets.token_hex(8)}"
    tx.run("UPDATE meta SET value = ? WHERE name = 'log_epoch'", (epoch,))
    return epoch


def step(tx: Tx) -> bool:
    """Do the next migration. Returns whether there was one. Raises ConfigError."""
    version = schema_version(tx)
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"the store has schema version {version}, this server knows {len(MIGRATIONS)}",
            "run the newer server again, or use another store",
        )
    if version == len(MIGRATIONS):
        return False
    for statement in MIGRATIONS[version].split(";\n"):
        if statement.strip():
            tx.run(statement)
    _note_version(tx, version + 1)
    return True


def _note_version(tx: Tx, number: int) -> None:
    if number == 1:
        tx.run("INSERT INTO meta VALUES ('log_epoch', '')")
        renew_log_epoch(tx)
        tx.run("INSERT INTO meta VALUES ('schema_version', '1')")
    tx.run("UPDATE meta SET value = ? WHERE name = 'schema_version'", (str(number),))
