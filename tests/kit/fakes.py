"""Small working stand-ins for the ports of actors: a log, a harness and a journal in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from math import inf

import msgspec
import trio
from msgspec.structs import replace

from actors.events import (
    Body,
    Event,
    Opens,
    Part,
    PartPayload,
    RunFinished,
    RunFinishedPayload,
    RunStarted,
    RunStartedPayload,
    SeenChunk,
    Unknown,
)
from actors.harness import AnySaid, Attachment, Decision, TextSaid, TurnEnded, Used
from actors.messages import (
    CaughtUp,
    EventsSeen,
    GrantChange,
    ThreadGranted,
    ThreadInbox,
    ThreadRevoked,
    WentBack,
)
from actors.people import Kind, Person
from actors.ports import (
    Evidence,
    Keyed,
    OpenRun,
    Position,
    Record,
    Refused,
    SessionFailed,
    Unavailable,
)

BOT, ADA, BEN = "bot-claude", "user-ada", "user-ben"


class FakeLog:
    """A Bubble server for one bot: a gapless log a thread, with faults on order."""

    def __init__(self) -> None:
        self.log_epoch = "e-1"
        self.is_alone = True
        self.threads: dict[str, list[Event]] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.payloads: dict[tuple[str, int], object] = {}
        self.appends: list[tuple[str, list[Keyed], float]] = []
        self.faults: list[Unavailable | Refused] = []
        """Raised by the next appends, one each, before anything is stored."""
        self.windows: list[tuple[str, int]] = []
        self.subthreads: dict[tuple[str, str], str] = {}
        """By thread and key."""
        self.archived: list[str] = []
        self.refused: dict[str, Refused] = {}
        """By thread, what every append to it meets."""
        self.open_faults: list[Refused | Unavailable] = []
        """Raised by the next openings of a subthread, one each."""
        self.names: dict[str, Person] = {}
        """What is told of a principal; of others, what the first letters of the id say."""
        self.asked_about: list[list[str]] = []
        self.artifacts: dict[tuple[str, str], bytes] = {}
        """What is at an address, for a thread."""
        self.fetched: list[tuple[str, str, int]] = []
        self._changed = trio.Event()
        self._grants: list[GrantChange] = []
        self.subscribers: dict[str, int] = {}
        self.marks: dict[str, int] = {}

    # --- what people do ------------------------------------------------------------------------

    def add(self, thread_id: str, principal_id: str, body: Body, **fields: object) -> Event:
        """Commit one event by anybody; return it."""
        events = self.threads.setdefault(thread_id, [])
        event = Event(seq=len(events) + 1, principal_id=principal_id, body=body)
        event = msgspec.structs.replace(event, **fields)
        events.append(event)
        self._wake()
        return event

    def say(self, thread_id: str, text: str, principal_id: str = ADA) -> Event:
        """Commit a bare message of one event; return it."""
        run_id = f"msg_{len(self.threads.get(thread_id, []))}"
        chunk = SeenChunk(type="text-delta", id="t", delta=text)
        return self.add(thread_id, principal_id, Part(chunk), run_id=run_id, bare_left=0)

    def grant(self, thread_id: str, **fields: object) -> None:
        """Let the bot take part from its first join on; the thread is made if it is not there."""
        if thread_id not in self.threads:
            self.add(thread_id, ADA, Unknown())
        granted = ThreadGranted(thread_id=thread_id, joined_seq=1)
        self._grants.append(msgspec.structs.replace(granted, **fields))
        self._wake()

    def lose(self, thread_id: str, keep: int) -> None:
        """Let an older state of the log come back, which ends at `keep`."""
        del self.threads[thread_id][keep:]
        self.keys = {
            key: seq for key, seq in self.keys.items() if key[0] != thread_id or seq <= keep
        }
        self.payloads = {
            at: what for at, what in self.payloads.items() if at[0] != thread_id or at[1] <= keep
        }
        self._wake()

    def revoke(self, thread_id: str) -> None:
        self._grants.append(ThreadRevoked(thread_id))
        self._wake()

    # --- what tests look at --------------------------------------------------------------------

    def shown(self, thread_id: str) -> list[str]:
        """Return the bot's events in short: chunk types, or the run's status."""
        return [_short(payload) for payload in self.own(thread_id)]

    def own(self, thread_id: str) -> list[object]:
        seqs = (event.seq for event in self.threads[thread_id])
        return [self.payloads[thread_id, seq] for seq in seqs if (thread_id, seq) in self.payloads]

    def runs_on(self, thread_id: str) -> list[str]:
        """Return the bot's runs on a thread, also on one that is not there."""
        events = self.threads.get(thread_id, [])
        return list(dict.fromkeys(e.run_id or "" for e in events if e.principal_id == BOT))

    def text(self, thread_id: str) -> str:
        chunks = [getattr(payload, "chunk", None) for payload in self.own(thread_id)]
        return "".join(getattr(chunk, "delta", "") for chunk in chunks)

    async def until(self, holds: Callable[[], object]) -> None:
        """Return when something holds that depends on this log; the test's deadline is the end."""
        while not holds():
            await self._changed.wait()

    # --- the port ------------------------------------------------------------------------------

    async def append(self, thread_id: str, events: Sequence[Keyed]) -> Sequence[int]:
        await trio.lowlevel.checkpoint()
        self.appends.append((thread_id, list(events), trio.current_time()))
        if self.faults:
            raise self.faults.pop(0)
        if thread_id in self.refused:
            raise self.refused[thread_id]
        return [self._store(thread_id, keyed) for keyed in events]

    def _store(self, thread_id: str, keyed: Keyed) -> int:
        known = self.keys.get((thread_id, keyed.key))
        if known is not None:
            assert self.payloads[thread_id, known] == keyed.draft.payload, "key conflict"
            return known
        seq = len(self.threads[thread_id]) + 1
        self.keys[thread_id, keyed.key] = seq
        self.payloads[thread_id, seq] = keyed.draft.payload
        self.add(thread_id, BOT, _body(keyed), run_id=keyed.draft.run_id)
        return seq

    async def open_subthread(self, thread_id: str, key: str, run_id: str, call: Opens) -> str:
        await trio.lowlevel.checkpoint()
        if self.open_faults:
            raise self.open_faults.pop(0)
        child_id = self.subthreads.setdefault((thread_id, key), f"{thread_id}.{call.tool_call_id}")
        if child_id not in self.threads:
            self.grant(child_id)
        return child_id

    async def archive(self, thread_id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.archived.append(thread_id)

    async def window(self, thread_id: str, after: int, newest: int) -> Sequence[Event]:
        await trio.lowlevel.checkpoint()
        self.windows.append((thread_id, after))
        return [event for event in self.threads[thread_id] if event.seq > after][-newest:]

    async def run_events(self, thread_id: str, run_id: str) -> Sequence[Event]:
        await trio.lowlevel.checkpoint()
        return [event for event in self.threads[thread_id] if event.run_id == run_id]

    async def people(self, thread_id: str, principal_ids: Collection[str]) -> Sequence[Person]:
        await trio.lowlevel.checkpoint()
        self.asked_about.append(sorted(principal_ids))
        known = {event.principal_id for event in self.threads[thread_id]} | {BOT, *principal_ids}
        return [self.names.get(id_, Person(id_, kind_of(id_))) for id_ in sorted(known)]

    async def content(self, thread_id: str, url: str, most_bytes: int) -> bytes | None:
        await trio.lowlevel.checkpoint()
        self.fetched.append((thread_id, url, most_bytes))
        return self.artifacts.get((thread_id, url))

    @asynccontextmanager
    async def subscribe(
        self, thread_id: str, after: int, inbox: trio.MemorySendChannel[ThreadInbox]
    ) -> AsyncGenerator[None]:
        self.subscribers[thread_id] = self.subscribers.get(thread_id, 0) + 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feed, thread_id, after, inbox.clone())
            try:
                yield
            finally:
                self.subscribers[thread_id] -= 1
                nursery.cancel_scope.cancel()

    async def _feed(
        self, thread_id: str, after: int, inbox: trio.MemorySendChannel[ThreadInbox]
    ) -> None:
        head, cursor = len(self.threads[thread_id]), after
        caught_up = False
        async with inbox:
            while True:
                changed = self._changed
                if cursor > len(self.threads[thread_id]):
                    await inbox.send(WentBack(len(self.threads[thread_id])))
                    return
                new = tuple(e for e in self.threads[thread_id] if e.seq > cursor)
                if new:
                    await inbox.send(EventsSeen(new))
                    cursor = new[-1].seq
                if not caught_up:
                    await inbox.send(CaughtUp(head))
                    caught_up = True
                await changed.wait()

    def mark(self, thread_id: str, seq: int) -> None:
        self.marks[thread_id] = seq

    async def grants(self, into: trio.MemorySendChannel[GrantChange]) -> None:
        told = 0
        while True:
            changed = self._changed
            for change in self._grants[told:]:
                told += 1
                await into.send(change)
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def kind_of(principal_id: str) -> Kind:
    return "bot" if principal_id.startswith("bot-") else "user"


def _body(keyed: Keyed) -> Body:
    payload = keyed.draft.payload
    if isinstance(payload, RunStartedPayload):
        return RunStarted(payload.trigger)
    if isinstance(payload, RunFinishedPayload):
        return RunFinished(status=payload.status, through_seq=payload.through_seq)
    assert isinstance(payload, PartPayload)
    return Part(msgspec.convert(msgspec.to_builtins(payload.chunk), SeenChunk))


def _short(payload: object) -> str:
    if isinstance(payload, RunStartedPayload):
        return "run_started"
    if isinstance(payload, RunFinishedPayload):
        return payload.status
    return str(payload.chunk.__struct_config__.tag)  # type: ignore[attr-defined]  # a PartPayload


class FakeSession:
    """A harness session that a test plays: it says what it is told to say."""

    def __init__(self, thread_id: str, session_id: str, shows: dict[str, Evidence]) -> None:
        self.thread_id, self.session_id = thread_id, session_id
        self._shows = shows
        self.prompts: list[tuple[str, str]] = []
        self.attached: list[tuple[Attachment, ...]] = []
        """What came with each prompt."""
        self.decisions: list[tuple[str, Decision]] = []
        self.interrupts: list[str] = []
        self.stopped_asides: list[str] = []
        self.obeys = True
        """Whether an interrupt ends the turn, or only is acknowledged."""
        self.echoes = True
        """Whether a prompt is answered at once with its own text."""
        self.costs_usd: float | None = None
        """What each turn costs, if it says so."""
        self.is_for_one = False
        """Whether it is closed after each turn."""
        self.closed = False
        self._said: list[AnySaid] = []
        self._failure: SessionFailed | None = None
        self._bug: Exception | None = None
        self._ready = trio.Event()

    def say(self, *said: AnySaid) -> None:
        self._said += said
        for item in said:
            self._note(item)
        self._ready.set()

    def _note(self, item: AnySaid) -> None:
        """Keep the record by which a later process knows what became of a prompt."""
        if not self.prompts:
            return
        prompt_id = self.prompts[-1][0]
        shown = self._shows[prompt_id]
        if isinstance(item, TextSaid):
            self._shows[prompt_id] = replace(shown, texts=(*shown.texts, item.text))
        elif (
            isinstance(item, TurnEnded)
            and item.status == "completed"
            and item.prompt_id in self._shows
        ):
            self._shows[item.prompt_id] = replace(self._shows[item.prompt_id], fate="answered")

    def die(
        self, code: str = "agent_failed", text: str = "The agent died.", *, lost: bool = False
    ) -> None:
        self._failure = SessionFailed(code, text, lost_session=lost)
        self._ready.set()

    def fail(self, code: str, *, tainted: bool = True) -> None:
        """Say that the turn in hand failed, and whether the conversation may be why."""
        prompt_id = self.prompts[-1][0]
        ended = TurnEnded(prompt_id=prompt_id, status="failed", code=code, tainted=tainted)
        self.say(ended)

    def crash(self, error: Exception) -> None:
        """Fail as no session should: with an error that nobody expects."""
        self._bug = error
        self._ready.set()

    def end(
        self, status: str = "completed", prompt_id: str | None = None, code: str | None = None
    ) -> None:
        """Say that the turn in hand is over, and with it the session if it `is_for_one`."""
        used = () if self.costs_usd is None else (Used(model="fake", cost_usd=self.costs_usd),)
        self.say(
            *used,
            TurnEnded(
                prompt_id=prompt_id or self.prompts[-1][0],
                status=status,  # type: ignore[arg-type]  # a literal in every test
                code=code,
                closes=self.is_for_one,
            ),
        )

    async def receive(self) -> Sequence[AnySaid]:
        await self._ready.wait()
        if self._bug is not None:
            raise self._bug
        if self._said:
            said, self._said = self._said, []
            if self._failure is None:
                self._ready = trio.Event()
            return said
        assert self._failure is not None
        raise self._failure

    async def prompt(
        self, prompt_id: str, text: str, attachments: Sequence[Attachment] = ()
    ) -> None:
        await trio.lowlevel.checkpoint()
        self.attached.append(tuple(attachments))
        self.prompts.append((prompt_id, text))
        self._shows[prompt_id] = Evidence(fate="unfinished")
        if self.echoes:
            self.say(TextSaid(f"b{len(self.prompts)}", f"echo: {text}"))
            self.end()

    def decide(self, tool_call_id: str, decision: Decision) -> bool:
        self.decisions.append((tool_call_id, decision))
        return True

    async def stop_aside(self, tool_call_id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.stopped_asides.append(tool_call_id)

    async def interrupt(self, prompt_id: str) -> None:
        self.interrupts.append(prompt_id)
        await trio.lowlevel.checkpoint()
        if self.obeys:
            self.end("interrupted", prompt_id)


class FakeHarness:
    """Opens `FakeSession`s, remembers them all, and fails on order."""

    name = "fake"

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.resumed: list[str | None] = []
        self.budgets: list[float] = []
        """What each session was allowed to cost."""
        self.failures: list[SessionFailed] = []
        """Raised by the next openings, one each."""
        self.opening_s = 0.0
        self.closing_s = 0.0
        self.prepare: Callable[[FakeSession], None] = lambda session: None
        self.records: dict[str, Evidence] = {}
        """What its record shows of a prompt; of all others, that it never got them."""
        self.opened = trio.Event()
        self.questions: list[tuple[str, str | None, str]] = []
        """Thread, session and prompt of each look into the record."""

    def model_of(self, thread_id: str) -> str | None:
        return None

    @property
    def live(self) -> list[FakeSession]:
        return [session for session in self.sessions if not session.closed]

    def of(self, thread_id: str) -> FakeSession:
        """Return the newest session of a thread."""
        return [s for s in self.sessions if s.thread_id == thread_id][-1]

    @asynccontextmanager
    async def open(
        self, thread_id: str, resume: str | None, *, budget_usd: float = inf
    ) -> AsyncGenerator[FakeSession]:
        self.budgets.append(budget_usd)
        await trio.sleep(self.opening_s)
        if self.failures:
            raise self.failures.pop(0)
        session = FakeSession(
            thread_id, resume or f"session-{len(self.sessions) + 1}", self.records
        )
        self.prepare(session)
        self.sessions.append(session)
        self.resumed.append(resume)
        try:
            yield session
        finally:
            with trio.move_on_after(8, shield=True):
                await trio.sleep(self.closing_s)
            session.closed = True

    async def evidence(self, thread_id: str, session_id: str | None, prompt_id: str) -> Evidence:
        await trio.lowlevel.checkpoint()
        assert not any(session.thread_id == thread_id for session in self.live), "still open"
        self.questions.append((thread_id, session_id, prompt_id))
        return self.records.get(prompt_id, Evidence(fate="unseen"))


class FakeJournal:
    """A journal that lives as long as the test."""

    def __init__(self) -> None:
        self.held: dict[str, Position] = {}
        self.sessions: dict[str, str] = {}
        self.retired: dict[str, list[tuple[str, str]]] = {}
        """By thread, each session id that is not resumed again, and why."""
        self.epoch: str | None = None
        self.unsent: dict[str, dict[str, Keyed]] = {}
        self.runs: dict[str, OpenRun] = {}
        self.seen: dict[str, int] = {}
        self.spent: dict[str, float] = {}

    def spent_usd(self, thread_id: str) -> float:
        return self.spent.get(thread_id, 0.0)

    async def spend(self, thread_id: str, cost_usd: float) -> None:
        await trio.lowlevel.checkpoint()
        self.spent[thread_id] = self.spent_usd(thread_id) + cost_usd

    def checkpoints(self) -> Mapping[str, Position]:
        return self.held

    async def settle(self, thread_id: str, position: Position) -> None:
        await trio.lowlevel.checkpoint()
        held = self.held.get(thread_id)
        if held is None or held.log_epoch != position.log_epoch or held.seq < position.seq:
            self.held[thread_id] = position
        run, unsent = self.runs.pop(thread_id, None), self.unsent.pop(thread_id, {})
        kept = {
            k: one for k, one in unsent.items() if run is None or one.draft.run_id != run.run_id
        }
        if kept:
            self.unsent[thread_id] = kept
        if self.seen.get(thread_id, 0) <= position.seq:
            self.seen.pop(thread_id, None)

    async def record(self, thread_id: str) -> Record:
        await trio.lowlevel.checkpoint()
        return Record(
            unsent=tuple(self.unsent.get(thread_id, {}).values()),
            run=self.runs.get(thread_id),
            seen=self.seen.get(thread_id, 0),
        )

    async def adopt(self, log_epoch: str) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        before, self.epoch = self.epoch, log_epoch
        if before in (None, log_epoch):
            return []
        touched = {*self.unsent, *self.runs, *self.seen}
        for held in (self.unsent, self.runs, self.seen):
            held.clear()
        return sorted(touched)

    async def go_back(self, thread_id: str, position: Position) -> None:
        await trio.lowlevel.checkpoint()
        for table in (self.unsent, self.runs, self.seen):
            table.pop(thread_id, None)
        held = self.held.get(thread_id)
        if held is not None and held.log_epoch == position.log_epoch and held.seq > position.seq:
            self.held[thread_id] = position

    async def see(self, thread_id: str, seq: int) -> None:
        await trio.lowlevel.checkpoint()
        self.seen[thread_id] = max(seq, self.seen.get(thread_id, 0))

    async def begin(self, thread_id: str, run: OpenRun) -> OpenRun:
        await self.see(thread_id, run.through_seq)
        before = self.runs.get(thread_id)
        run = msgspec.structs.replace(run, tries=before.tries + 1 if before else 1)
        self.runs[thread_id] = run
        return run

    async def excuse(self, thread_id: str) -> None:
        await trio.lowlevel.checkpoint()
        if (run := self.runs.get(thread_id)) is not None:
            self.runs[thread_id] = msgspec.structs.replace(run, tries=max(0, run.tries - 1))

    async def keep(
        self, thread_id: str, events: Sequence[Keyed], landed: Sequence[str] = ()
    ) -> None:
        await trio.lowlevel.checkpoint()
        held = self.unsent.setdefault(thread_id, {})
        for key in landed:
            held.pop(key, None)
        held.update({event.key: event for event in events})

    async def recall(self, thread_id: str, keys: Sequence[str]) -> Sequence[Keyed]:
        await trio.lowlevel.checkpoint()
        held = self.unsent.get(thread_id, {})
        return [held[key] for key in keys]

    def session_id(self, thread_id: str) -> str | None:
        return self.sessions.get(thread_id)

    async def remember_session(self, thread_id: str, session_id: str | None) -> None:
        await trio.lowlevel.checkpoint()
        self.sessions.pop(thread_id, None)
        if session_id is not None:
            self.sessions[thread_id] = session_id

    async def retire_session(self, thread_id: str, session_id: str, why: str) -> None:
        await trio.lowlevel.checkpoint()
        self.sessions.pop(thread_id, None)
        self.retired.setdefault(thread_id, []).append((session_id, why))

    def has_retired(self, thread_id: str) -> bool:
        return thread_id in self.retired and thread_id not in self.sessions
