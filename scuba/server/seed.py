"""Puts a seed into a store (14.3): all of it or nothing, and never over what is there.

Who and what exists is left alone. A grant or an identity of the seed is made once in a store's
life: when somebody takes it away, the next start does not bring it back.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.mistakes import Mistake
from scuba.server.seeds import Seed, SeedEvent, SeedPrincipal, SeedThread, bare_detail, drafts_of
from scuba.server.store import SYSTEM, Caller, Store
from scuba.server.store.appending import append
from scuba.server.store.engine import Tx, Write
from scuba.server.store.founding import create, create_child
from scuba.server.store.grants import put
from scuba.server.store.identities import bind
from scuba.server.store.ids import token_hash
from scuba.server.store.participation import find_grant
from scuba.server.store.principals import add_principal, change
from scuba.server.store.targets import target_id
from scuba.server.store.text import read_moment
from scuba.server.store.threads import find_thread
from scuba.server.store.tokens import add_token
from scuba.server.store.visibility import find_principal
from scuba.settings import config_error

TOKEN_LABEL = "seed"  # what people read beside it, not a secret


class Planted(msgspec.Struct):
    """How much of a seed was not there yet."""

    principals: int = 0
    grants: int = 0
    threads: int = 0
    events: int = 0


async def plant(store: Store, seed: Seed, limits: wire.Limits, config: Path | None) -> Planted:
    """Make what is not there yet, in one transaction. Returns how much that was.

    Raises ConfigError with every mistake that only the store can tell; nothing was written then.
    """
    return await store.set_up(partial(_plant, seed, limits, store.log_epoch, config))


def _plant(seed: Seed, limits: wire.Limits, epoch: str, config: Path | None, w: Write) -> Planted:
    planting = _Planting(w, seed, limits, epoch)
    if not planting.found:
        planting.run()
    if planting.found:
        raise config_error(config, planting.found)  # undoes all of it
    return planting.planted


class _Planting:
    """One seed on its way into one transaction; `found` are its mistakes."""

    def __init__(self, w: Write, seed: Seed, limits: wire.Limits, epoch: str) -> None:
        self._w, self._seed, self._limits, self._epoch = w, seed, limits, epoch
        self.planted = Planted()
        self.found = list(_unknown(w, seed))

    def run(self) -> None:
        new = [one for one in enumerate(self._seed.principals) if self._principal(*one)]
        threads = sorted(
            enumerate(self._seed.threads), key=lambda one: one[1].thread_id.count(".sub-")
        )
        begun = [one for one in threads if self._thread(*one)]
        self._grants()
        for index, thread in begun:
            self._events(thread, f"seed.threads[{index}].events")
        for index, principal in new:
            self._disable(principal, f"seed.principals[{index}]")

    # --- principals ----------------------------------------------------------------------------

    def _principal(self, index: int, principal: SeedPrincipal) -> bool:
        """Make a principal with its token. Returns whether it was not there."""
        new = find_principal(self._w, principal.principal_id) is None
        if new:
            made = self._try(f"seed.principals[{index}]", lambda: self._make(principal))
            self.planted.principals += made
        for place, identity in enumerate(principal.identities):
            if self._once(f"identity {identity.issuer} {identity.subject}"):
                names = (principal.principal_id, identity.issuer, identity.subject)
                path = f"seed.principals[{index}].identities[{place}]"
                self._try(path, partial(bind, self._w, SYSTEM, *names))
        return new

    def _make(self, principal: SeedPrincipal) -> None:
        name, token = principal.principal_id, principal.initial_token
        add_principal(self._w, SYSTEM.id, principal.body())
        created_at = read_moment("createdAt", principal.created_at) or self._w.now
        self._w.run(
            "UPDATE principals SET created_at = ? WHERE principal_id = ?", (created_at, name)
        )
        if isinstance(token, str):
            _check_fresh(self._w, token)
            add_token(self._w, SYSTEM.id, name, principal.kind, label=TOKEN_LABEL, text=token)

    def _disable(self, principal: SeedPrincipal, path: str) -> None:
        if principal.disabled_at is not None:
            asked = wire.PrincipalChange(disabled_at=principal.disabled_at)
            name = principal.principal_id
            self._try(f"{path}.disabledAt", lambda: change(self._w, SYSTEM, name, asked))

    # --- grants --------------------------------------------------------------------------------

    def _grants(self) -> None:
        for index, principal in enumerate(self._seed.principals):
            target = wire.Target(type="principal", principal_id=principal.principal_id)
            for place, owner in enumerate(principal.owner_principal_ids):
                grant = wire.NewGrant(target=target, principal_id=owner, role="owner")
                self._grant(grant, f"seed.principals[{index}].ownerPrincipalIds[{place}]")
        for index, one in enumerate(self._seed.authz):
            grant = wire.NewGrant(
                target=one.target.target(), principal_id=one.principal_id, role=one.role
            )
            self._grant(grant, f"seed.authz[{index}]")

    def _grant(self, grant: wire.NewGrant, path: str) -> None:
        target = grant.target
        if not self._once(f"grant {target.type} {target_id(target)} {grant.principal_id}"):
            return
        if find_grant(self._w, target, grant.principal_id) is None:
            self.planted.grants += self._try(path, lambda: put(self._w, SYSTEM, grant))

    # --- threads -------------------------------------------------------------------------------

    def _thread(self, index: int, thread: SeedThread) -> bool:
        """Make a thread. Returns whether it was not there."""
        if find_thread(self._w, thread.thread_id) is not None:
            return False
        made = self._try(f"seed.threads[{index}]", lambda: self._found(thread))
        self.planted.threads += made
        return made

    def _found(self, thread: SeedThread) -> None:
        if thread.parent_thread_id is None:
            create(self._w, SYSTEM, wire.NewThread(title=thread.title), thread.thread_id)
            return
        body = wire.NewSubthread(title=thread.title)
        create_child(self._w, SYSTEM, thread.parent_thread_id, body, thread.thread_id)

    def _events(self, thread: SeedThread, path: str) -> None:
        """Append what was said, each author's stretch as one batch, until one is refused."""
        first = 0
        for author, stretch in groupby(thread.events, key=lambda event: event.principal_id):
            events = list(stretch)
            try:
                self._append(thread.thread_id, author, events)
            except Problem as problem:
                index = problem.fields.get("index")
                place = first + index if isinstance(index, int) else first
                self.found.append((f"{path}[{place}]", _why(problem, author)))
                return
            self.planted.events += len(events)
            first += len(events)

    def _append(self, thread_id: str, author: str, events: list[SeedEvent]) -> None:
        body = wire.NewEvents(events=[event.new() for event in events])
        drafts = drafts_of(events, self._limits)
        append(self._w, _caller(self._w, author), thread_id, body, drafts, self._epoch)

    # --- ways down -----------------------------------------------------------------------------

    def _once(self, what: str) -> bool:
        """Return whether this store never got this of a seed; from now on it did."""
        return bool(
            self._w.run(
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                (f"seeded {what}", self._w.now),
            )
        )

    def _try(self, path: str, step: Callable[[], object]) -> bool:
        """Do a step. Returns whether the store took it; why not goes to the mistakes."""
        try:
            step()
        except Problem as problem:
            self.found.append((path, problem.detail))
            return False
        return True


def _why(problem: Problem, author: str) -> str:
    if problem.code == "thread_not_found":
        return f"{author} has no role on this thread; authz can give it one"
    return bare_detail(problem)


def _unknown(tx: Tx, seed: Seed) -> Iterator[Mistake]:
    """Yield every mention of somebody or something that neither the seed nor the store has."""
    seeded = {principal.principal_id for principal in seed.principals} | {SYSTEM.id}
    threads = {thread.thread_id for thread in seed.threads}
    for path, name in _mentioned(seed):
        if name not in seeded and find_principal(tx, name) is None:
            yield path, f"there is no principal {name}, in the seed or in the store"
    for path, thread_id in _mentioned_threads(seed):
        if thread_id not in threads and find_thread(tx, thread_id) is None:
            yield path, f"there is no thread {thread_id}, in the seed or in the store"


def _mentioned(seed: Seed) -> Iterator[tuple[str, str]]:
    for index, principal in enumerate(seed.principals):
        for place, owner in enumerate(principal.owner_principal_ids):
            yield f"seed.principals[{index}].ownerPrincipalIds[{place}]", owner
    for index, grant in enumerate(seed.authz):
        yield f"seed.authz[{index}].principalId", grant.principal_id
        if grant.target.principal_id is not None:
            yield f"seed.authz[{index}].target.principalId", grant.target.principal_id
    for index, thread in enumerate(seed.threads):
        for place, event in enumerate(thread.events):
            yield f"seed.threads[{index}].events[{place}].principalId", event.principal_id


def _mentioned_threads(seed: Seed) -> Iterator[tuple[str, str]]:
    for index, grant in enumerate(seed.authz):
        if grant.target.thread_id is not None:
            yield f"seed.authz[{index}].target.threadId", grant.target.thread_id
    for index, thread in enumerate(seed.threads):
        if thread.parent_thread_id is not None:
            yield f"seed.threads[{index}].parentThreadId", thread.parent_thread_id


def _caller(tx: Tx, principal_id: str) -> Caller:
    row = find_principal(tx, principal_id)
    assert row is not None, principal_id
    return Caller(wire.Principal(principal_id=principal_id, kind=row.kind))


def _check_fresh(tx: Tx, token: str) -> None:
    if tx.one("SELECT 1 FROM tokens WHERE hash = ?", (token_hash(token),)) is not None:
        raise Problem(409, "limit_reached", "the initialToken is already somebody's")
