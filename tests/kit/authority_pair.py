"""A store and the model of its authority: each thing is done to both, and the answers compared."""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar, cast

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import (
    SYSTEM,
    Caller,
    appending,
    founding,
    granted,
    grants,
    open_database,
    reading,
    threads,
)
from scuba.server.store import principals as people
from scuba.server.store.authority import role_on
from scuba.server.store.drafts import read_drafts
from scuba.server.store.engine import Tx, Write
from scuba.server.store.visibility import require_live
from tests.kit import store
from tests.kit.authority_facts import Principal
from tests.kit.authority_model import Model
from tests.kit.store import (
    ON_SYSTEM,
    answer,
    decide,
    event,
    finished,
    interrupt,
    on_principal,
    on_thread,
    started,
    text,
    tool_call,
)

T = TypeVar("T")
PEOPLE: dict[str, dict[str, Any]] = {
    "ada": {"kind": "user"},
    "eve": {"kind": "user"},
    "kim": {"kind": "user", "open_to_invites": False, "discoverable": False},
    "bot": {"kind": "bot"},
    "bee": {"kind": "bot", "discoverable": True},
}
OWNED_BY = {"bot": "ada", "bee": "eve"}
EVENTS: dict[str, Callable[[str], list[wire.NewEvent]]] = {
    "say": lambda _: [text("hi")],
    "start": lambda run: [started(run), tool_call("c", run)],
    "part": lambda run: [text("x", run)],
    "mark": lambda run: [event("x.acme.mark", run=run)],
    "finish": lambda run: [finished(run)],
    "interrupt": lambda run: [interrupt(run)],
    "approve": lambda run: [decide(run, "c")],
    "answer": lambda run: [answer(run, "c")],
}


class Pair:
    """Owns the store's database; straight on the rules, each in a transaction of its own."""

    def __init__(self) -> None:
        self.database = open_database(store.fresh_place())
        self.model = Model()
        self.callers = {"system": SYSTEM}
        self._clock = count(1_800_000_000_000)
        self._changed = False
        self.model.principals["system"] = Principal("system", open=False, discoverable=False)
        for name, fields in PEOPLE.items():
            self._come(name, OWNED_BY.get(name, "system"), fields)

    def close(self) -> None:
        self.database.close()

    def _come(self, name: str, by: str, fields: dict[str, Any]) -> None:
        body = store.make(wire.NewPrincipal, principal_id=name, **fields)
        self._write(by, lambda w, c: people.create(w, c, body))
        is_user = fields["kind"] == "user"
        self.model.principals[name] = Principal(
            fields["kind"],
            open=bool(fields.get("open_to_invites", is_user)),
            discoverable=bool(fields.get("discoverable", is_user)),
            owners={by} - {"system"},
        )
        self.callers[name] = Caller(wire.Principal(principal_id=name, kind=fields["kind"]))

    # --- doing ---------------------------------------------------------------------------------

    def create(self, who: str) -> None:
        expected = self.model.attempt(lambda: self.model.create(who, "made"))
        self._made(
            self._check(expected, who, lambda w, c: founding.create(w, c, wire.NewThread(), None))
        )

    def create_child(self, who: str, parent: str, *, inherits: bool) -> None:
        body = wire.NewSubthread(access="inherit" if inherits else "direct")
        expected = self.model.attempt(
            lambda: self.model.create_child(who, parent, "made", inherits=inherits)
        )
        self._made(
            self._check(expected, who, lambda w, c: founding.create_child(w, c, parent, body))
        )

    def change(
        self,
        who: str,
        thread_id: str,
        *,
        access: wire.Access | None,
        archived: bool | None,
        can_invite: bool | None,
    ) -> None:
        asked = {"access": access, "members_can_invite": can_invite}
        fields: dict[str, object] = {k: v for k, v in asked.items() if v is not None}
        if archived is not None:
            fields["archived_at"] = "2026-11-30T12:00:00Z" if archived else None
        body = store.make(wire.ThreadChange, **fields)
        expected = self.model.attempt(
            lambda: self.model.change(
                who,
                thread_id,
                inherits=None if access is None else access == "inherit",
                archived=archived,
                members_can_invite=can_invite,
            )
        )
        self._check(expected, who, lambda w, c: threads.change(w, c, thread_id, body))

    def put(self, who: str, thread_id: str, other: str, role: Role, key: str | None) -> None:
        target = on_thread(thread_id)
        body = wire.NewGrant(target=target, principal_id=other, role=role, key=key)
        expected = self.model.attempt(lambda: self.model.put(who, thread_id, other, role, key))
        self._check(expected, who, lambda w, c: grants.put(w, c, body))

    def invite(self, who: str, thread_id: str, other: str, key: str | None) -> None:
        body = wire.NewInvite(principal_id=other, key=key)
        expected = self.model.attempt(lambda: self.model.invite(who, thread_id, other, key))
        self._check(expected, who, lambda w, c: grants.invite(w, c, thread_id, body))

    def revoke(self, who: str, thread_id: str, other: str) -> None:
        expected = self.model.attempt(lambda: self.model.revoke(who, thread_id, other))
        self._check(expected, who, lambda w, c: grants.delete(w, c, on_thread(thread_id), other))

    def share(self, who: str, owned: str | None, other: str) -> None:
        target = ON_SYSTEM if owned is None else on_principal(owned)
        body = wire.NewGrant(target=target, principal_id=other, role="owner")
        expected = self.model.attempt(lambda: self.model.share(who, owned, other))
        self._check(expected, who, lambda w, c: grants.put(w, c, body))

    def unshare(self, who: str, owned: str | None, other: str) -> None:
        target = ON_SYSTEM if owned is None else on_principal(owned)
        expected = self.model.attempt(lambda: self.model.unshare(who, owned, other))
        self._check(expected, who, lambda w, c: grants.delete(w, c, target, other))

    def disable(self, who: str, other: str, *, disabled: bool) -> None:
        body = wire.PrincipalChange(disabled_at="2026-11-30T12:00:00Z" if disabled else None)
        expected = self.model.attempt(lambda: self.model.disable(who, other, disabled=disabled))
        self._check(expected, who, lambda w, c: people.change(w, c, other, body))

    def append(self, who: str, thread_id: str, kind: str, run: str) -> None:
        body = wire.NewEvents(events=EVENTS[kind](run))
        drafts = read_drafts(body, None, wire.Limits())
        expected = self.model.attempt(lambda: self.model.append(who, thread_id, kind, run))
        self._check(
            expected, who, lambda w, c: appending.append(w, c, thread_id, body, drafts, "e")
        )

    def _write(self, who: str, work: Callable[[Write, Caller], T]) -> T:
        caller = self.callers[who]

        def run(tx: Tx) -> object:
            w = Write(tx, next(self._clock))
            require_live(w, caller, w.now)
            return work(w, caller)

        (outcome,) = self.database.apply([run])
        return cast("T", outcome.unwrap())

    def _check(self, expected: str, who: str, work: Callable[[Write, Caller], object]) -> object:
        """Have the store do it, and compare what it answers with what the model did."""
        got: object = None
        code = ""
        try:
            got = self._write(who, work)
        except Problem as problem:
            code = problem.code
        if code:
            assert code == expected
            return None
        self._changed = True
        new = got[0] if isinstance(got, tuple) else expected == "new"
        assert ("new" if new else "done") == expected
        return got

    def _made(self, got: object) -> None:
        """Give the model's new thread the id that it got."""
        if isinstance(got, tuple):
            self.model.threads[got[1].thread_id] = self.model.threads.pop("made")

    # --- what anybody sees ---------------------------------------------------------------------

    def compare(self) -> None:
        """Compare all that can be seen and was told, if something has changed."""
        if self._changed:
            self.database.look(self._compare)
        self._changed = False

    def _compare(self, tx: Tx) -> None:
        for thread_id in self.model.threads:
            self._compare_thread(tx, thread_id)
        for name, caller in self.callers.items():
            self._compare_principal(tx, name, caller)
            assert role_on(tx, caller, "thr_unknown") == (None, 0)

    def _compare_thread(self, tx: Tx, thread_id: str) -> None:
        thread, view = self.model.threads[thread_id], threads.whole(tx, SYSTEM, thread_id)
        enabled = {
            who: role
            for who, role in thread.grants.items()
            if not self.model.principals[who].disabled
        }
        runs = [run for run, (_, status) in thread.runs.items() if status == "open"]
        log = reading.read(tx, "", thread_id, 0, 10**6, 10**9)
        assert {p.principal_id: p.role for p in view.participants} == enabled
        assert participants(log) == enabled
        assert sorted(run.run_id for run in view.active_runs) == sorted(runs)
        assert (view.thread.access == "inherit") == thread.inherits
        assert [one.seq for one in log] == list(range(1, len(log) + 1))

    def _compare_principal(self, tx: Tx, name: str, caller: Caller) -> None:
        direct: dict[str, Role] = {}
        for thread_id, thread in self.model.threads.items():
            assert role_on(tx, caller, thread_id)[0] == self.model.role(name, thread_id)
            direct |= {thread_id: thread.grants[name]} if name in thread.grants else {}
        page, _ = threads.listing(tx, caller, parent=None, archived=None, limit=100, after=None)
        head, held = granted.snapshot(tx, name)
        changes = granted.since(tx, name, 0)
        assert changes is not None
        assert {thread.thread_id: thread.role for thread in page} == direct
        assert {g.target.thread_id: g.role for g in held if g.target.thread_id} == direct
        assert [change.grant_seq for change in changes] == list(range(1, head + 1))
        assert folded(changes) == {g.target: (g.role, g.joined_seq) for g in held}


def participants(log: list[wire.Envelope]) -> dict[str, Role]:
    """Return who is on a thread, as somebody knows who has read all of it."""
    there: dict[str, Role] = {}
    for one in log:
        told: Any = store.said(one)
        if one.type == "participant_left":
            there.pop(told["principalId"], None)
        elif one.type == "participant_joined":
            there[told["principalId"]] = told["role"]
        elif one.type == "participant_role_changed" and told["principalId"] in there:
            there |= {told["principalId"]: told["role"]}
    return there


def folded(changes: list[wire.ServerGrant]) -> dict[wire.Target, tuple[Role | None, int | None]]:
    """Return what a bot that followed the stream from its beginning knows."""
    known: dict[wire.Target, tuple[Role | None, int | None]] = {}
    for change in changes:
        target = change.grant.target
        if change.action == "revoked":
            del known[target]
        else:
            assert (change.action == "changed") == (target in known)
            known[target] = (change.grant.role, change.grant.joined_seq)
    return known
