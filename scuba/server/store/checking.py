"""Whether a store is whole: what must hold between its tables, looked at on one snapshot (16).

Each rule is a query for what breaks it, and the words for one such row.
"""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from scuba.server.store.chunks import CALL_OPENERS
from scuba.server.store.engine import Broken, Database, Tx
from scuba.server.store.schema import MIGRATIONS, schema_version
from scuba.wire import Struct

SHOWN = 20
"""Most findings of one rule that are told; then only their number."""


class Rule(msgspec.Struct, frozen=True):
    """What is never to be found, and how it is told."""

    words: str
    sql: str
    since: int = 1
    """The schema version that has its tables."""


class _Chunk(Struct, frozen=True, kw_only=True):
    type: str
    tool_call_id: str | None = None


class _Part(Struct, frozen=True, kw_only=True):
    chunk: _Chunk


_OF_RUNS = "('run_started', 'message_part', 'run_finished')"
_OWN_SEQ = f"CASE WHEN e.type IN {_OF_RUNS} THEN e.seq END"

RULES = (
    Rule(
        "thread {0} says it has seq {1} to {2}, but its log has {3} events, {4} to {5}",
        "SELECT t.thread_id, t.first_seq, t.last_seq, COUNT(e.seq), MIN(e.seq), MAX(e.seq)"
        " FROM threads t LEFT JOIN events e ON e.thread_id = t.thread_id"
        " GROUP BY t.thread_id, t.first_seq, t.last_seq HAVING COUNT(e.seq) = 0"
        " OR COUNT(e.seq) <> t.last_seq - t.first_seq + 1"
        " OR MIN(e.seq) <> t.first_seq OR MAX(e.seq) <> t.last_seq",
    ),
    Rule(
        "thread {0}, which is not there, has {1} events",
        "SELECT e.thread_id, COUNT(*) FROM events e WHERE NOT EXISTS"
        " (SELECT 1 FROM threads t WHERE t.thread_id = e.thread_id) GROUP BY e.thread_id",
    ),
    Rule(
        "the event id {0} is there {1} times",
        "SELECT id, COUNT(*) FROM events GROUP BY id HAVING COUNT(*) > 1",
    ),
    Rule(
        "{0}, who is not there, has {1} events",
        "SELECT e.principal_id, COUNT(*) FROM events e WHERE NOT EXISTS (SELECT 1 FROM principals p"
        " WHERE p.principal_id = e.principal_id) GROUP BY e.principal_id",
    ),
    Rule(
        "thread {0} is below {1}, which is not there",
        "SELECT t.thread_id, t.parent_thread_id FROM threads t WHERE t.parent_thread_id IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM threads o WHERE o.thread_id = t.parent_thread_id)",
    ),
    Rule(
        "thread {0} takes its participants from {1}, which is not there",
        "SELECT t.thread_id, t.holder_id FROM threads t WHERE NOT EXISTS"
        " (SELECT 1 FROM threads o WHERE o.thread_id = t.holder_id)",
    ),
    Rule(
        "run {1} on {0} says it has seq {2} to {3}, but its events have {4} to {5}",
        # An event of a vendor's within a run did not always count as a part of it.
        f"SELECT r.thread_id, r.run_id, r.first_seq, r.last_seq, MIN({_OWN_SEQ}), MAX({_OWN_SEQ})"
        " FROM runs r LEFT JOIN events e ON e.thread_id = r.thread_id AND e.run_id = r.run_id"
        f" AND (e.type IN {_OF_RUNS} OR e.type LIKE 'x.%')"
        " GROUP BY r.thread_id, r.run_id, r.first_seq, r.last_seq"
        f" HAVING MIN({_OWN_SEQ}) IS NULL OR MIN({_OWN_SEQ}) <> r.first_seq"
        f" OR MAX({_OWN_SEQ}) > r.last_seq OR MAX(e.seq) < r.last_seq",
    ),
    Rule(
        "run {1} on {0} is {2}, which does not go with whether a run_finished is there",
        "SELECT r.thread_id, r.run_id, r.status FROM runs r WHERE"
        " (r.status IN ('completed', 'interrupted', 'failed')) <> EXISTS (SELECT 1 FROM events e"
        " WHERE e.thread_id = r.thread_id AND e.run_id = r.run_id AND e.type = 'run_finished')",
    ),
    Rule(
        "run {1} on {0} is {2}, which does not go with whether a run_started is there",
        "SELECT r.thread_id, r.run_id, r.status FROM runs r WHERE (r.status = 'bare') ="
        " EXISTS (SELECT 1 FROM events e WHERE e.thread_id = r.thread_id"
        " AND e.run_id = r.run_id AND e.type = 'run_started')",
    ),
    Rule(
        "run {1} on {0}, which is not there, has {2} events",
        f"SELECT e.thread_id, e.run_id, COUNT(*) FROM events e WHERE e.type IN {_OF_RUNS}"
        " AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.thread_id = e.thread_id"
        " AND r.run_id = e.run_id) GROUP BY e.thread_id, e.run_id",
    ),
    Rule(
        "the grant of {1} on {0} {2} is of a principal that is not there",
        "SELECT g.target_type, g.principal_id, g.target_id FROM grants g WHERE NOT EXISTS"
        " (SELECT 1 FROM principals p WHERE p.principal_id = g.principal_id)",
    ),
    Rule(
        "the grant of {1} is on the {0} {2}, which is not there",
        "SELECT g.target_type, g.principal_id, g.target_id FROM grants g WHERE"
        " g.target_type = 'thread' AND NOT EXISTS"
        " (SELECT 1 FROM threads t WHERE t.thread_id = g.target_id) OR"
        " g.target_type = 'principal' AND NOT EXISTS"
        " (SELECT 1 FROM principals p WHERE p.principal_id = g.target_id)",
    ),
    Rule(
        "{1} is on thread {0} since seq {2}, where no participant_joined is",
        "SELECT g.target_id, g.principal_id, g.joined_seq FROM grants g"
        " WHERE g.target_type = 'thread' AND NOT EXISTS (SELECT 1 FROM events e"
        " WHERE e.thread_id = g.target_id AND e.seq = g.joined_seq"
        " AND e.type = 'participant_joined')",
    ),
    Rule(
        "the grant log of {0} should end at {1}, but has {2} rows, {3} to {4}",
        "SELECT p.principal_id, p.grant_seq, COUNT(l.grant_seq), MIN(l.grant_seq),"
        " MAX(l.grant_seq) FROM principals p LEFT JOIN grant_log l"
        " ON l.principal_id = p.principal_id GROUP BY p.principal_id, p.grant_seq"
        " HAVING COALESCE(MAX(l.grant_seq), 0) <> p.grant_seq OR COUNT(l.grant_seq) <> p.grant_seq",
    ),
    Rule(
        "the token {0} is of {1}, who is not there",
        "SELECT k.token_id, k.principal_id FROM tokens k WHERE NOT EXISTS"
        " (SELECT 1 FROM principals p WHERE p.principal_id = k.principal_id)",
    ),
    Rule(
        "the thread key {0} of {1} leads to {2}, which is not there",
        "SELECT k.key, k.principal_id, k.thread_id FROM thread_keys k WHERE NOT EXISTS"
        " (SELECT 1 FROM threads t WHERE t.thread_id = k.thread_id)",
    ),
    Rule(
        "the subject {1} of {0} is bound to {2}, who is not there",
        "SELECT i.issuer, i.subject, i.principal_id FROM identities i WHERE NOT EXISTS"
        " (SELECT 1 FROM principals p WHERE p.principal_id = i.principal_id)",
        since=2,
    ),
    Rule(
        "the cursor {2} of {1} on {0} is at {3}, beyond the log",
        "SELECT c.thread_id, c.principal_id, c.consumer, c.seq FROM consumer_cursors c WHERE"
        " c.seq > COALESCE((SELECT t.last_seq FROM threads t WHERE t.thread_id = c.thread_id), 0)",
        since=3,
    ),
    Rule(
        "artifact {0} says it has {1} versions, but {2} are there, up to {3}",
        "SELECT a.artifact_id, a.latest_version, COUNT(v.version), MAX(v.version) FROM artifacts a"
        " LEFT JOIN artifact_versions v ON v.artifact_id = a.artifact_id"
        " GROUP BY a.artifact_id, a.latest_version HAVING COUNT(v.version) <> a.latest_version"
        " OR COALESCE(MAX(v.version), 0) <> a.latest_version",
        since=3,
    ),
    Rule(
        "version {1} of artifact {0} should have {2} bytes, but has {3}",
        "SELECT v.artifact_id, v.version, v.size, COALESCE(SUM(LENGTH(p.piece)), 0)"
        " FROM artifact_versions v LEFT JOIN artifact_pieces p ON p.content_id = v.content_id"
        " GROUP BY v.artifact_id, v.version, v.size"
        " HAVING COALESCE(SUM(LENGTH(p.piece)), 0) <> v.size",
        since=3,
    ),
)

_RUNS_WITH_CALLS = """
SELECT thread_id, run_id FROM tool_calls UNION
SELECT thread_id, run_id FROM events WHERE type = 'message_part' AND payload LIKE '%tool-input-%'
ORDER BY 1, 2
"""


def check(database: Database, *, sqlite: bool) -> Iterator[str]:
    """Yield what is wrong with a store, a line each; nothing when it is whole.

    SQLite is asked about its own file; PostgreSQL checks its pages as it reads them.
    """
    looks: list[Callable[[Tx], Iterator[str]]] = [_meta, _rules, _tool_calls]
    for look in [_file, *looks] if sqlite else looks:
        try:
            yield from database.look(partial(_all, look, patiently=not sqlite))
        except Broken as error:
            yield f"the database cannot be read: {error}"


def _all(look: Callable[[Tx], Iterator[str]], tx: Tx, *, patiently: bool) -> list[str]:
    if patiently:  # a query over every event takes longer than a caller of the server would wait
        tx.run("SET LOCAL statement_timeout = 0")
    return list(look(tx))


def _file(tx: Tx) -> Iterator[str]:
    """Yield what SQLite finds in its own file."""
    for (told,) in tx.all(f"PRAGMA integrity_check({SHOWN})"):
        if told != "ok":
            yield f"SQLite: {told}"
    for table, _, parent, *_ in tx.all("PRAGMA foreign_key_check")[:SHOWN]:
        yield f"SQLite: a row of {table} refers to a row of {parent} that is not there"


def _meta(tx: Tx) -> Iterator[str]:
    version = schema_version(tx)
    if version == 0:
        yield "this is no store: it has no tables of ours"
        return
    if version < len(MIGRATIONS):
        yield f"the schema is version {version}; `scuba store migrate` brings it to the newest"
    if version > len(MIGRATIONS):
        yield f"the schema is version {version}, of a newer program"
    if tx.one("SELECT 1 FROM meta WHERE name = 'log_epoch' AND value <> ''") is None:
        yield "there is no log epoch"
    if tx.one("SELECT 1 FROM principals WHERE principal_id = 'system'") is None:
        yield "the principal system is not there"


def _rules(tx: Tx) -> Iterator[str]:
    version = schema_version(tx)
    for rule in RULES:
        if rule.since <= version:
            yield from _shortened(rule, tx)


def _shortened(rule: Rule, tx: Tx) -> Iterator[str]:
    rows = tx.all(rule.sql)
    for row in rows[:SHOWN]:
        yield rule.words.format(*row)
    if len(rows) > SHOWN:
        yield f"… and {len(rows) - SHOWN} more like it"


def _tool_calls(tx: Tx) -> Iterator[str]:
    """Yield the runs whose tool calls are not those that their events open."""
    if schema_version(tx) == 0:
        return
    for thread_id, run_id in tx.all(_RUNS_WITH_CALLS):
        kept = tx.all(
            "SELECT tool_call_id FROM tool_calls WHERE thread_id = ? AND run_id = ?",
            (thread_id, run_id),
        )
        opened = set(_opened(tx, thread_id, run_id))
        for call in sorted(opened ^ {row[0] for row in kept}):
            where = "its events" if call in opened else "the table of calls"
            yield f"the tool call {call} of run {run_id} on {thread_id} is only in {where}"


def _opened(tx: Tx, thread_id: str, run_id: str) -> Iterator[str]:
    for (payload,) in tx.all(
        "SELECT payload FROM events WHERE thread_id = ? AND run_id = ? AND type = 'message_part'"
        " AND payload LIKE '%tool-input-%'",
        (thread_id, run_id),
    ):
        try:
            chunk = msgspec.json.decode(payload, type=_Part).chunk
        except msgspec.DecodeError:
            continue  # nothing the server took; what it opened is then only in the table
        if chunk.type in CALL_OPENERS and chunk.tool_call_id is not None:
            yield chunk.tool_call_id
