"""The journal as one SQLite file: each change is durable on return, or did not happen."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec
import trio

from actors.events import Draft, DraftType
from actors.ports import Keyed, OpenRun, Position, Record
from scuba.errors import ScubaError
from scuba.journal.schema import meta, put_meta
from scuba.journal.stubborn import Stubborn

T = TypeVar("T")

EPOCH = "log_epoch"
WHY_CHARS = 2_000
"""What is kept of the cause for which a session was retired."""
_SETTLE = """
    INSERT INTO checkpoints VALUES (?, ?, ?) ON CONFLICT (thread_id) DO UPDATE
    SET log_epoch = excluded.log_epoch, seq = excluded.seq
    WHERE log_epoch != excluded.log_epoch OR seq < excluded.seq
"""
_SETTLED = """
    DELETE FROM unsent WHERE thread_id = ?
    AND run_id IN (SELECT run_id FROM runs WHERE thread_id = ?)
"""
_GO_BACK = """
    UPDATE checkpoints SET seq = MIN(seq, ?) WHERE thread_id = ? AND log_epoch = ?
"""
_SEE = """
    INSERT INTO seen VALUES (?, ?) ON CONFLICT (thread_id) DO UPDATE
    SET seq = MAX(seq, excluded.seq)
"""
_BEGIN = """
    INSERT INTO runs (thread_id, run_id, prompt_id, through_seq, resumes, tries)
    VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT (thread_id) DO UPDATE
    SET run_id = excluded.run_id, prompt_id = excluded.prompt_id,
        through_seq = excluded.through_seq, resumes = excluded.resumes, tries = tries + 1
    RETURNING tries
"""
_RUN = "SELECT run_id, prompt_id, through_seq, tries, resumes FROM runs WHERE thread_id = ?"
_EXCUSE = "UPDATE runs SET tries = MAX(0, tries - 1) WHERE thread_id = ?"
_KEEP = """
    INSERT INTO unsent (thread_id, key, run_id, type, payload) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (thread_id, key) DO UPDATE SET type = excluded.type, payload = excluded.payload
"""
_HELD = "SELECT key, type, run_id, payload FROM unsent WHERE thread_id = ? AND key = ?"
_RETIRE = """
    INSERT INTO retired_sessions (thread_id, session_id, why, retired_at)
    VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
"""
_SPEND = """
    INSERT INTO spent VALUES (?, ?) ON CONFLICT (thread_id) DO UPDATE
    SET cost_usd = cost_usd + excluded.cost_usd RETURNING cost_usd
"""
_LAND = "DELETE FROM unsent WHERE thread_id = ? AND key = ?"
_ASIDE = {
    "runs": "json_object('runId', run_id, 'promptId', prompt_id, 'throughSeq', through_seq)",
    "unsent": "json_object('key', key, 'type', type, 'runId', run_id, 'payload', payload)",
    "seen": "CAST(seq AS TEXT)",
}
_encode = msgspec.json.Encoder().encode


class SqliteJournal:
    """Fills `actors.ports.Journal`. Owns its connection; only a worker thread touches it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._writer = trio.CapacityLimiter(1)
        self._stubborn = Stubborn(path)
        self._checkpoints = {
            str(thread_id): Position(str(log_epoch), int(seq))
            for thread_id, log_epoch, seq in connection.execute("SELECT * FROM checkpoints")
        }
        self._sessions = {
            str(thread_id): str(session_id)
            for thread_id, session_id in connection.execute("SELECT * FROM sessions")
        }
        self._retired = {str(row[0]) for row in connection.execute(_threads_of("retired_sessions"))}
        self._spent = {
            str(thread_id): float(cost_usd)
            for thread_id, cost_usd in connection.execute("SELECT * FROM spent")
        }
        self._marked = {
            str(row[0]) for table in _ASIDE for row in connection.execute(_threads_of(table))
        }
        """Threads that may have more on record than checkpoint and session."""

    # --- what is settled -----------------------------------------------------------------------

    def checkpoints(self) -> Mapping[str, Position]:
        """Return the settlement checkpoint of every thread that has one; it follows `settle`."""
        return MappingProxyType(self._checkpoints)

    async def settle(self, thread_id: str, position: Position) -> None:
        """Move a thread's checkpoint; its run is over and its events are let go."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_SETTLE, (thread_id, position.log_epoch, position.seq))
            connection.execute(_SETTLED, (thread_id, thread_id))
            connection.execute("DELETE FROM runs WHERE thread_id = ?", (thread_id,))
            connection.execute(
                "DELETE FROM seen WHERE thread_id = ? AND seq <= ?", (thread_id, position.seq)
            )

        await self._write(work)
        held = self._checkpoints.get(thread_id)
        if held is None or held.log_epoch != position.log_epoch or held.seq < position.seq:
            self._checkpoints[thread_id] = position

    # --- what is not ---------------------------------------------------------------------------

    async def record(self, thread_id: str) -> Record:
        """Return what is not settled of a thread."""
        if thread_id not in self._marked:
            return Record()
        return await self._write(lambda connection: _record(connection, thread_id))

    async def adopt(self, log_epoch: str) -> Sequence[str]:
        """Belong to this log from now on; put aside what is not settled of any other."""
        return await self._write(lambda connection: _adopt(connection, log_epoch))

    async def see(self, thread_id: str, seq: int) -> None:
        """Note that input up to `seq` waits."""
        self._marked.add(thread_id)
        await self._write(lambda connection: connection.execute(_SEE, (thread_id, seq)))

    async def begin(self, thread_id: str, run: OpenRun) -> OpenRun:
        """Note that a run begins; it takes the place of one before. Returns it with its tries."""

        def work(connection: sqlite3.Connection) -> int:
            values = (thread_id, run.run_id, run.prompt_id, run.through_seq, run.resumes)
            connection.execute(_SEE, (thread_id, run.through_seq))
            return int(connection.execute(_BEGIN, values).fetchall()[0][0])

        self._marked.add(thread_id)
        return msgspec.structs.replace(run, tries=await self._write(work))

    async def excuse(self, thread_id: str) -> None:
        """Note that it was our own stop that cut the run on record: it counts as no try."""
        await self._write(lambda connection: connection.execute(_EXCUSE, (thread_id,)))

    async def keep(
        self, thread_id: str, events: Sequence[Keyed], landed: Sequence[str] = ()
    ) -> None:
        """Hold events before they are sent, and let go of those with the keys `landed`."""
        rows = [
            (thread_id, key, draft.run_id, draft.type, _encode(draft.payload).decode())
            for key, draft in ((event.key, event.draft) for event in events)
        ]

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(_LAND, [(thread_id, key) for key in landed])
            connection.executemany(_KEEP, rows)

        self._marked.add(thread_id)
        await self._write(work)

    async def recall(self, thread_id: str, keys: Sequence[str]) -> Sequence[Keyed]:
        """Return the events that are held under these keys, in the order of the keys."""

        def work(connection: sqlite3.Connection) -> list[Keyed]:
            rows = (connection.execute(_HELD, (thread_id, key)).fetchone() for key in keys)
            return [_keyed(row) for row in rows if row is not None]

        return await self._write(work)

    async def go_back(self, thread_id: str, position: Position) -> None:
        """Move a checkpoint down to where its log ends now; put aside what is not settled."""

        def work(connection: sqlite3.Connection) -> None:
            _put_aside(connection, position.log_epoch, thread_id)
            connection.execute(_GO_BACK, (position.seq, thread_id, position.log_epoch))

        await self._write(work)
        held = self._checkpoints.get(thread_id)
        if held is not None and held.log_epoch == position.log_epoch and held.seq > position.seq:
            self._checkpoints[thread_id] = position

    # --- sessions ------------------------------------------------------------------------------

    def session_id(self, thread_id: str) -> str | None:
        """Return the harness session to resume for a thread."""
        return self._sessions.get(thread_id)

    async def remember_session(self, thread_id: str, session_id: str | None) -> None:
        """Keep (or, with None, forget) a thread's harness session."""
        if session_id == self._sessions.get(thread_id):
            return

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM sessions WHERE thread_id = ?", (thread_id,))
            if session_id is not None:
                connection.execute("INSERT INTO sessions VALUES (?, ?)", (thread_id, session_id))

        await self._write(work)
        self._sessions.pop(thread_id, None)
        if session_id is not None:
            self._sessions[thread_id] = session_id

    async def retire_session(self, thread_id: str, session_id: str, why: str) -> None:
        """Never resume this session of a thread again; its id stays on record, with the cause."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM sessions WHERE thread_id = ?", (thread_id,))
            connection.execute(_RETIRE, (thread_id, session_id, why[:WHY_CHARS]))

        await self._write(work)
        self._sessions.pop(thread_id, None)
        self._retired.add(thread_id)

    def has_retired(self, thread_id: str) -> bool:
        """Return whether a thread's session was retired, and none has taken its place."""
        return thread_id in self._retired and thread_id not in self._sessions

    # --- cost ----------------------------------------------------------------------------------

    def spent_usd(self, thread_id: str) -> float:
        """Return what a thread has cost so far."""
        return self._spent.get(thread_id, 0.0)

    async def spend(self, thread_id: str, cost_usd: float) -> None:
        """Add to what a thread has cost."""

        def work(connection: sqlite3.Connection) -> float:
            return float(connection.execute(_SPEND, (thread_id, cost_usd)).fetchall()[0][0])

        self._spent[thread_id] = await self._write(work)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # Not abandoned on cancel: a write that began is finished before its caller goes on.
        async def once() -> T:
            return await trio.to_thread.run_sync(
                _at_once, self._connection, work, limiter=self._writer
            )

        try:
            return await self._stubborn.until_done(once)
        except sqlite3.Error as error:
            raise ScubaError(f"cannot write the journal {self._path}: {error}") from error


def _at_once(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _threads_of(table: str) -> str:
    return f"SELECT DISTINCT thread_id FROM {table}"


def _record(connection: sqlite3.Connection, thread_id: str) -> Record:
    run = connection.execute(_RUN, (thread_id,)).fetchone()
    seen = connection.execute("SELECT seq FROM seen WHERE thread_id = ?", (thread_id,)).fetchone()
    unsent = connection.execute(
        "SELECT key, type, run_id, payload FROM unsent WHERE thread_id = ? ORDER BY number",
        (thread_id,),
    ).fetchall()
    return Record(
        unsent=tuple(map(_keyed, unsent)),
        run=None
        if run is None
        else OpenRun(
            run_id=run[0], prompt_id=run[1], through_seq=run[2], tries=run[3], resumes=run[4]
        ),
        seen=0 if seen is None else seen[0],
    )


def _keyed(row: tuple[str, DraftType, str, str]) -> Keyed:
    key, type_, run_id, payload = row
    return Keyed(key, Draft(type_, run_id, msgspec.Raw(payload.encode())))


def _put_aside(connection: sqlite3.Connection, log_epoch: str, thread_id: str) -> None:
    for table, content in _ASIDE.items():
        connection.execute(
            f"INSERT INTO put_aside SELECT ?, thread_id, ?, {content} FROM {table}"
            " WHERE thread_id = ?",
            (log_epoch, table, thread_id),
        )
        connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))


def _adopt(connection: sqlite3.Connection, log_epoch: str) -> list[str]:
    before = meta(connection, EPOCH)
    if before == log_epoch:
        return []
    touched = set[str]()
    if before is not None:
        for table, content in _ASIDE.items():
            touched |= {str(row[0]) for row in connection.execute(_threads_of(table))}
            connection.execute(
                f"INSERT INTO put_aside SELECT ?, thread_id, ?, {content} FROM {table}",
                (before, table),
            )
            connection.execute(f"DELETE FROM {table}")
    put_meta(connection, EPOCH, log_epoch)
    return sorted(touched)
