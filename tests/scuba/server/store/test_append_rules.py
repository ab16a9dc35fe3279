"""Whatever is appended, in whatever order, by whomever: the log obeys a plain model.

Two authors, few runs, few keys, batches with faults in them; straight on the rules, no threads.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller, appending, founding, grants, principals, reading
from scuba.server.store.changes import Committed
from scuba.server.store.drafts import read_drafts
from scuba.server.store.engine import Tx, Write
from scuba.server.store.ids import clock_ms
from scuba.server.store.opening import open_database
from tests.kit.store import event, finished, on_thread, started, text

AUTHORS = st.sampled_from(["ada", "bob"])
EVENTS = st.builds(
    lambda kind, run, key, word: (kind, run, key, word),
    st.sampled_from(["started", "part", "part", "mark", "finished"]),
    st.sampled_from(["r1", "r2", "r3"]),
    st.sampled_from([None, None, "k1", "k2", "k3", "k4"]),
    st.sampled_from(["a", "b"]),
)
Told = tuple[str, str, str | None, str]
T = TypeVar("T")


def to_event(told: Told) -> wire.NewEvent:
    kind, run, key, word = told
    if kind == "started":
        return started(run, key)
    if kind == "mark":
        return event("x.acme.mark", run=run, key=key)
    return finished(run, key) if kind == "finished" else text(word, run, key)


def content(told: Told) -> tuple[str, ...]:
    kind, run, _, word = told
    return (kind, run, word) if kind == "part" else (kind, run)


class Model:
    """One thread, as a list of what was said and a table of runs."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.keys: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = {}
        self.runs: dict[str, tuple[str, str]] = {}

    def append(self, who: str, batch: list[Told], head: int) -> list[int] | str:
        """Return the seqs, or the code of the refusal; change nothing then."""
        keys, runs, log = dict(self.keys), dict(self.runs), list(self.log)
        new = [told for told in batch if told[2] is None or (who, told[2]) not in keys]
        fault = self._conflict(who, batch)
        seqs: list[int] = []
        begun: set[str] = set()
        for told in batch if fault is None else []:
            kind, run, key, _ = told
            if key is not None and (who, key) in keys:
                seqs.append(keys[who, key][0])
                continue
            fault = self._judge(runs, begun, who, kind, run)
            if fault is not None:
                break
            log.append((who, kind))
            seqs.append(head + len(log) - len(self.log))
            if key is not None:
                keys[who, key] = (seqs[-1], content(told))
        if fault is not None:
            return fault
        assert len(log) - len(self.log) <= len(new)
        self.keys, self.runs, self.log = keys, runs, log
        return seqs

    def _conflict(self, who: str, batch: list[Told]) -> str | None:
        seen = {key: said for (name, key), (_, said) in self.keys.items() if name == who}
        for told in batch:
            if told[2] is not None and seen.setdefault(told[2], content(told)) != content(told):
                return "key_conflict"
        return None

    @staticmethod
    def _judge(
        runs: dict[str, tuple[str, str]], begun: set[str], who: str, kind: str, run: str
    ) -> str | None:
        author, status = runs.get(run, (who, "new"))
        if kind == "started":
            if status != "new":
                return "run_exists"
            runs[run] = (who, "open")
            return None
        if kind in ("finished", "mark") and status == "new":
            return "run_not_found"
        if author != who:
            return "not_your_run"
        if status == "done":
            return "run_finished"
        if status == "bare" and (kind != "part" or run not in begun):
            return "run_complete"
        if status == "new":
            begun.add(run)
        runs[run] = (who, "done" if kind == "finished" else "bare" if status == "new" else status)
        return None


class AppendRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.database = open_database(None)
        self.model = Model()
        self.told: list[wire.Envelope] = []

    def teardown(self) -> None:
        self.database.close()

    def write(self, work: Callable[[Write], T]) -> T:
        writes: list[Write] = []

        def run(tx: Tx) -> object:
            writes.append(Write(tx, clock_ms()))
            return work(writes[0])

        (outcome,) = self.database.apply([run])
        result = cast("T", outcome.unwrap())
        for change in writes[0].changes:
            if isinstance(change, Committed):
                self.told += change.events
        return result

    @initialize()
    def two_authors_on_one_thread(self) -> None:
        self.callers = {
            name: Caller(wire.Principal(principal_id=name, kind="user")) for name in ("ada", "bob")
        }
        for name in self.callers:
            body = wire.NewPrincipal(principal_id=name, kind="user")
            self.write(partial(principals.create, caller=SYSTEM, body=body))
        ada = self.callers["ada"]
        _, thread = self.write(lambda w: founding.create(w, ada, wire.NewThread(), None))
        self.thread_id = thread.thread_id
        grant = wire.NewGrant(target=on_thread(self.thread_id), principal_id="bob", role="member")
        self.write(lambda w: grants.put(w, ada, grant))
        self.head = 3

    @rule(who=AUTHORS, batch=st.lists(EVENTS, min_size=1, max_size=5))
    def append(self, who: str, batch: list[Told]) -> None:
        body = wire.NewEvents(events=[to_event(told) for told in batch])
        drafts = read_drafts(body, None, wire.Limits())
        expected = self.model.append(who, batch, self.head)
        append = partial(
            appending.append,
            caller=self.callers[who],
            thread_id=self.thread_id,
            body=body,
            drafts=drafts,
            log_epoch="e",
        )
        if isinstance(expected, str):
            with pytest.raises(Problem) as caught:
                self.write(append)
            assert caught.value.code == expected
            return
        new, got = self.write(append)
        assert [receipt.seq for receipt in got.events] == expected
        fresh = {receipt.seq for receipt in got.events if receipt.seq > self.head}
        assert new == bool(fresh)
        self.head += len(fresh)
        assert got.last_seq == self.head

    @rule(who=AUTHORS, after=st.integers(0, 30), limit=st.integers(1, 7))
    def read_on_from_anywhere(self, who: str, after: int, limit: int) -> None:
        seqs: list[int] = []
        while True:
            page = self.page(who, reading.Ask(after=after, limit=limit))
            seqs += [event.seq for event in page.events]
            if page.next_after is None:
                break
            assert len(page.events) == limit
            after = page.next_after
        assert seqs == list(range(seqs[0] if seqs else 0, self.head + 1))[: len(seqs)]
        assert not seqs or seqs[-1] == self.head

    @rule(who=AUTHORS, tail=st.integers(1, 12))
    def the_newest_cut_no_foreign_run(self, who: str, tail: int) -> None:
        page = self.page(who, reading.Ask(tail=tail, align_runs=True))
        first = page.events[0].seq
        assert page.aligned is True
        assert [event.seq for event in page.events] == list(range(first, self.head + 1))
        assert first <= max(1, self.head - tail + 1)
        inside = {e.run_id for e in page.events if e.principal_id != who} - {None}
        assert not inside & {e.run_id for e in self.told if e.seq < first}

    def page(self, who: str, ask: reading.Ask) -> wire.Page:
        return self.database.look(
            lambda tx: reading.page(tx, self.callers[who], self.thread_id, ask, "e")
        )

    @invariant()
    def the_log_is_gapless_and_what_was_told(self) -> None:
        if not hasattr(self, "head"):
            return
        log = self.database.look(lambda tx: reading.read(tx, "", self.thread_id, 0, 10**6, 10**9))
        hidden = [msgspec.structs.replace(event, key=None) for event in self.told]
        assert log == hidden
        assert [event.seq for event in log] == list(range(1, self.head + 1))
        assert len(log) - 3 == len(self.model.log)

    @invariant()
    def a_bare_message_counts_down_to_nothing(self) -> None:
        counts: dict[str | None, list[int]] = {}
        for one in self.told:
            if one.bare_left is not None:
                counts.setdefault(one.run_id, []).append(one.bare_left)
        assert all(left == list(range(len(left)))[::-1] for left in counts.values())


TestAppendRules = AppendRules.TestCase
TestAppendRules.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
