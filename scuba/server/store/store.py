"""The store as the edge sees it: one method for each thing a caller can ask of the server.

Every method raises `scuba.errors.Problem` with a status and code of chapter 13; all of them 503
`unavailable` when the database cannot do it. A write is on disk, and told to the listeners, before
its method returns.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from actors.events import Role
from scuba import wire
from scuba.errors import ConfigError, Problem
from scuba.server.apart import apart
from scuba.server.counts import Pace
from scuba.server.store import (
    appending,
    audit,
    authority,
    founding,
    granted,
    grants,
    principals,
    reading,
    seeing,
    threads,
    tokens,
)
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.consumers import Consumers
from scuba.server.store.database import Broken, Database
from scuba.server.store.drafts import read_drafts, size_bytes
from scuba.server.store.engine import Engine, Listener, Write, running
from scuba.server.store.identified import Identities
from scuba.server.store.ids import clock_ms, moment, moment_ms
from scuba.server.store.news import Ear
from scuba.server.store.opening import open_database, open_ear
from scuba.server.store.place import Place
from scuba.server.store.schema import cursor_key, log_epoch
from scuba.server.store.shelf import Shelf
from scuba.server.store.ways import Ways

T = TypeVar("T")

_LIMITS = wire.Limits()


class Store(Ways):
    """Everything the server keeps. Made by `open_store`, which closes it too."""

    def __init__(
        self,
        engine: Engine,
        nursery: trio.Nursery,
        *,
        epoch: str,
        cursor_key: bytes,
        limits: wire.Limits,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(engine)
        self.log_epoch = epoch
        self.cursor_key = cursor_key
        self.artifacts = Shelf(engine)
        self.identities = Identities(engine, now_ms)
        self.consumers = Consumers(engine, now_ms)
        self._nursery = nursery
        self._limits, self._now_ms = limits, now_ms
        self._touching: set[str] = set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change, right after its commit, in order. Returns the undo.

        It runs between two checkpoints of the writer: it must not block, and must not raise.
        """
        return self._engine.listen(listener)

    @property
    def pace(self) -> Pace:
        """How it commits, for the metrics."""
        return self._engine.pace

    @property
    def waiting(self) -> int:
        """How many writes wait for a commit."""
        return self._engine.waiting

    async def check(self) -> None:
        """Return when a commit reached the disk. Raises Problem 503 when none can."""
        await self._engine.write(_note_check)

    # --- identity (2) ---

    async def identify(self, token: str) -> Caller | None:
        """Return whom a token stands for, None for whatever is wrong with it (2.2).

        Raises Problem 403 `principal_disabled`.
        """
        now_ms = self._now_ms()
        found = await self._engine.read(lambda tx: tokens.identify(tx, token, moment(now_ms)))
        if found is None:
            return None
        used_at = found.last_used_at
        if used_at is None or moment_ms(used_at) < now_ms - tokens.TOUCH_S * 1_000:
            self._touch_soon(found.caller.token_id)
        return found.caller

    async def audit_rows(
        self, caller: Caller, *, limit: int, after: str | None
    ) -> tuple[list[audit.AuditRow], str | None]:
        """Return a page of the audit, oldest first (14.4), and where the next page begins."""
        return await self._read(audit.rows, caller, limit, after)

    async def whoami(self, caller: Caller) -> wire.WhoAmI:
        """Return the caller with its newest direct grants (2.3)."""
        return await self._read(seeing.whoami, caller)

    async def create_principal(
        self, caller: Caller, body: wire.NewPrincipal
    ) -> tuple[bool, wire.PrincipalCreated]:
        """Return whether it is new, and the principal with its first token (2.4)."""
        return await self._write(principals.create, caller, body)

    async def principal(self, caller: Caller, principal_id: str) -> wire.Principal:
        """Return a principal that the caller may see (2.6)."""
        return await self._read(seeing.seen_by, caller, principal_id)

    async def change_principal(
        self, caller: Caller, principal_id: str, change: wire.PrincipalChange
    ) -> wire.Principal:
        """Return the principal as changed (2.6)."""
        return await self._write(principals.change, caller, principal_id, change)

    async def find_principals(
        self, caller: Caller, *, q: str, kind: str | None, limit: int, after: str | None
    ) -> tuple[list[wire.Principal], str | None]:
        """Return whom the caller finds (2.6), and where the next page begins."""
        return await self._read(seeing.find, caller, q=q, kind=kind, limit=limit, after=after)

    async def mint_token(
        self, caller: Caller, principal_id: str, body: wire.NewToken
    ) -> wire.Token:
        """Return a new token, its plaintext this once (2.5)."""
        return await self._write(tokens.mint, caller, principal_id, body)

    async def tokens(self, caller: Caller, principal_id: str) -> list[wire.Token]:
        """Return a principal's tokens without their text (2.5)."""
        return await self._read(tokens.listing, caller, principal_id)

    async def revoke_tokens(self, caller: Caller, principal_id: str, token_id: str | None) -> None:
        """End one token, or with None all (2.5)."""
        await self._write(tokens.revoke, caller, principal_id, token_id)

    # --- grants (3, 9) ---

    async def grants_on(
        self, caller: Caller, target: wire.Target, *, limit: int, after: str | None
    ) -> tuple[list[wire.Grant], str | None]:
        """Return who holds what on a target (3.4), and where the next page begins."""
        return await self._read(granted.on_target, caller, target, limit, after)

    async def grants_of(
        self, caller: Caller, principal_id: str, *, limit: int, after: str | None
    ) -> tuple[list[wire.Grant], str | None, int]:
        """Return a principal's grants (9.2), where the next page begins, and its grantSeq."""
        return await self._read(granted.of_principal, caller, principal_id, limit, after)

    async def all_grants(
        self, caller: Caller, *, limit: int, after: str | None
    ) -> tuple[list[wire.Grant], str | None]:
        """Return every grant (3.4), and where the next page begins."""
        return await self._read(granted.everything, caller, limit, after)

    async def put_grant(self, caller: Caller, body: wire.NewGrant) -> tuple[bool, wire.Grant]:
        """Return whether the grant is new, and the grant (3.4)."""
        return await self._write(grants.put, caller, body)

    async def delete_grant(self, caller: Caller, target: wire.Target, principal_id: str) -> None:
        """Take a grant away, or leave (3.4)."""
        await self._write(grants.delete, caller, target, principal_id)

    async def invite(
        self, caller: Caller, thread_id: str, body: wire.NewInvite
    ) -> tuple[bool, wire.Grant]:
        """Return whether the grant is new, and the grant, as member (3.4)."""
        return await self._write(grants.invite, caller, thread_id, body)

    async def grants_snapshot(self, principal_id: str) -> tuple[int, list[wire.Grant]]:
        """Return grantSeq and the whole truth about a principal's grants (9.1)."""
        return await self._engine.read(lambda tx: granted.snapshot(tx, principal_id))

    async def grants_since(self, principal_id: str, after: int) -> list[wire.ServerGrant] | None:
        """Return the changes after a grantSeq; None when only a snapshot will do (9.1)."""
        return await self._engine.read(lambda tx: granted.since(tx, principal_id, after))

    # --- threads (4) ---

    async def create_thread(
        self, caller: Caller, body: wire.NewThread, *, thread_id: str | None = None
    ) -> tuple[bool, wire.Thread]:
        """Return whether it is new, and the thread (4.2). Only set-up code may name the id."""
        if thread_id is not None and caller.id != SYSTEM.id:
            raise Problem(403, "forbidden", "only the server itself names a thread")
        return await self._write(founding.create, caller, body, thread_id)

    async def create_subthread(
        self, caller: Caller, thread_id: str, body: wire.NewSubthread
    ) -> tuple[bool, wire.Thread]:
        """Return whether it is new, and the subthread (4.2)."""
        return await self._write(founding.create_child, caller, thread_id, body)

    async def threads(
        self,
        caller: Caller,
        *,
        parent: str | None,
        archived: bool | None,
        limit: int,
        after: str | None,
    ) -> tuple[list[wire.Thread], str | None]:
        """Return the threads the caller takes part in (4.3), and where the next page begins."""
        return await self._read(
            threads.listing, caller, parent=parent, archived=archived, limit=limit, after=after
        )

    async def thread(self, caller: Caller, thread_id: str) -> wire.ThreadView:
        """Return a thread with participants and open runs (4.3)."""
        return await self._read(threads.whole, caller, thread_id)

    async def change_thread(
        self, caller: Caller, thread_id: str, change: wire.ThreadChange
    ) -> wire.Thread:
        """Return the thread as changed (4.3)."""
        return await self._write(threads.change, caller, thread_id, change)

    # --- the log (5, 6, 7) ---

    async def append(
        self,
        caller: Caller,
        thread_id: str,
        body: wire.NewEvents,
        *,
        idempotency_key: str | None = None,
    ) -> tuple[bool, wire.Receipts]:
        """Return whether anything was new, and a receipt for each event (6)."""
        read = partial(read_drafts, body, idempotency_key, self._limits)
        drafts = await apart(size_bytes(body.events), read)
        return await self._write(appending.append, caller, thread_id, body, drafts, self.log_epoch)

    async def page(
        self,
        caller: Caller,
        thread_id: str,
        *,
        after: int | None,
        before: int | None,
        tail: int | None,
        align_runs: bool,
        run_id: str | None,
        types: tuple[str, ...],
        limit: int,
    ) -> wire.Page:
        """Return a page of a thread's log (7.1)."""
        ask = reading.Ask(
            after=after,
            before=before,
            tail=tail,
            align_runs=align_runs,
            run_id=run_id,
            types=types,
            limit=limit,
        )
        return await self._read(reading.page, caller, thread_id, ask, self.log_epoch)

    async def event(self, caller: Caller, thread_id: str, seq: int) -> wire.Envelope:
        """Return one event (7.2)."""
        return await self._read(reading.event, caller, thread_id, seq)

    async def run(self, caller: Caller, thread_id: str, run_id: str) -> wire.RunView:
        """Return where a run lies and how it stands (7.2)."""
        return await self._read(reading.run, caller, thread_id, run_id)

    async def role_on(self, caller: Caller, thread_id: str) -> tuple[Role | None, int]:
        """Return the caller's effective role (3.3) and the head; (None, 0) if not readable."""
        return await self._read(authority.role_on, caller, thread_id)

    async def read(
        self, principal_id: str, thread_id: str, after: int, *, limit: int, max_bytes: int
    ) -> list[wire.Envelope]:
        """Return what follows `after`. The caller has made sure that this reader has access."""
        return await self._engine.read(
            lambda tx: reading.read(tx, principal_id, thread_id, after, limit, max_bytes)
        )

    # --- when a token was last used ---

    def _touch_soon(self, token_id: str | None) -> None:
        if token_id is not None and token_id not in self._touching:
            self._touching.add(token_id)
            self._nursery.start_soon(self._touch, token_id, name="store touch token")

    async def _touch(self, token_id: str) -> None:
        try:
            await self._engine.write(partial(_touch, token_id=token_id))
        except Problem as problem:
            if problem.status != 503:
                raise
            return  # when a token was last used may be lost; the next use tells again
        finally:
            self._touching.discard(token_id)


class _Opened(msgspec.Struct, frozen=True):
    """A database with what of it stays the same as long as it is open."""

    database: Database
    ear: Ear | None
    epoch: str
    cursor_key: bytes


def _open(where: Place | Path | str | None) -> _Opened:
    database = open_database(where)
    try:
        epoch = database.look(log_epoch)
        database.apply([cursor_key])[0].unwrap()
        return _Opened(database, open_ear(database), epoch, database.look(cursor_key))
    except Broken as error:
        database.close()
        raise ConfigError(f"cannot open the store: {error}") from error
    except BaseException:
        database.close()
        raise


def _note_check(w: Write) -> None:
    w.run(
        "INSERT INTO meta (name, value) VALUES ('checked_at', ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (w.now,),
    )


def _touch(w: Write, token_id: str) -> None:
    tokens.touch(w, token_id)


@asynccontextmanager
async def open_store(
    where: Place | Path | str | None,
    *,
    limits: wire.Limits = _LIMITS,
    now_ms: Callable[[], int] = clock_ms,
) -> AsyncGenerator[Store]:
    """Open the store, migrate it, close it on the way out.

    It is in a file (a Path), in memory (None), or where a text such as `postgresql://…` says.
    Leaving finishes the writes that were started, within 10 s. Raises ConfigError for what is not
    a store of ours, is in use, or is of a newer server.
    """
    opened = await trio.to_thread.run_sync(_open, where)
    async with running(opened.database, now_ms, opened.ear) as (engine, nursery):
        store = Store(
            engine,
            nursery,
            epoch=opened.epoch,
            cursor_key=opened.cursor_key,
            limits=limits,
            now_ms=now_ms,
        )
        nursery.start_soon(store.consumers.run, name="store cursors")
        try:
            yield store
        finally:
            await store.consumers.aclose()
