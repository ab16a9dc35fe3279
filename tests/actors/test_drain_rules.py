"""InputDrain, however runs interleave, views begin and events repeat: each message once."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.drain import InputDrain
from actors.events import (
    Body,
    Event,
    InterruptRequested,
    Part,
    RunFinished,
    RunStarted,
    SeenChunk,
    Unknown,
)

BOT = "bot-scuba"
HAPPENINGS = st.tuples(
    st.sampled_from(["start", "go on", "work", "end", "bare", "noise"]),
    st.sampled_from(["user-ada", "user-ben", "bot-other", BOT, "system"]),
    st.integers(0, 5),
)
INTERRUPT = InterruptRequested()
SILENT = Part(SeenChunk(type="tool-input-available", tool_call_id="c"))


def said(text: str) -> Part:
    return Part(SeenChunk(type="text-delta", id="t", delta=text))


class Log:
    """A thread as the server keeps it, and the plain truth about what is final in it."""

    def __init__(self, *, counts_bare: bool) -> None:
        self.events: list[Event] = []
        self.counts_bare = counts_bare

    def append(self, body: Body, run_id: str | None, by: str, left: int | None = None) -> None:
        left = left if self.counts_bare else None
        seq = len(self.events) + 1
        self.events.append(
            Event(seq=seq, principal_id=by, body=body, run_id=run_id, bare_left=left)
        )

    @property
    def run_ids(self) -> list[str]:
        return sorted({event.run_id for event in self.events if event.run_id is not None})

    def run(self, run_id: str) -> list[Event]:
        return [event for event in self.events if event.run_id == run_id]

    def messages(self, after: int, until: int) -> list[tuple[int, int, str]]:
        """First seq, final seq and text of each message of others final in (after, until]."""
        found: list[tuple[int, int, str]] = []
        for run_id in self.run_ids:
            run = [e for e in self.run(run_id) if e.seq <= until and e.body != INTERRUPT]
            if not run or run[0].principal_id == BOT:
                continue
            if run[0].body == RunStarted():
                final = run[-1].seq if run[-1].body == RunFinished() else None
            elif self.counts_bare:
                final = run[-1].seq if run[-1].bare_left == 0 else None
            else:  # each part is final by itself
                run = [event for event in run if event.seq > after]
                final = run[-1].seq if run else None
            if final is not None and final > after:
                found.append((run[0].seq, final, "".join(map(words, run))))
        return sorted(found)


def words(event: Event) -> str:
    return (event.body.chunk.delta or "") if isinstance(event.body, Part) else ""


class DrainRules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, str] = {}
        self.runs = self.words = 0
        self.position = self.settled = 0
        self.delivered: list[str] = []

    def new_run(self) -> str:
        self.runs += 1
        return f"run{self.runs}"

    def word(self) -> str:
        """Never the same twice, so that a lost or doubled one shows."""
        self.words += 1
        return f"<{self.words}>"

    @initialize(counts_bare=st.booleans())
    def begin(self, counts_bare: bool) -> None:
        self.log = Log(counts_bare=counts_bare)
        self.drain = InputDrain(BOT, 0)

    @rule(happenings=st.lists(HAPPENINGS, min_size=1, max_size=8))
    def things_happen(self, happenings: list[tuple[str, str, int]]) -> None:
        for what, by, number in happenings:
            match what:
                case "start":
                    self.run_starts(by)
                case "go on" if self.open:
                    run_id = sorted(self.open)[number % len(self.open)]
                    self.log.append(said(self.word()), run_id, self.open[run_id])
                case "work" if self.open:
                    run_id = sorted(self.open)[number % len(self.open)]
                    self.log.append(SILENT, run_id, self.open[run_id])
                case "end" if self.open:
                    self.run_ends(sorted(self.open)[number % len(self.open)], by)
                case "bare" if by != BOT:
                    self.bare_message_comes(by, number % 3 + 1, woven=number > 2)
                case _:
                    about = [*self.log.run_ids, *[None] * 6][number]
                    self.log.append(INTERRUPT if about else Unknown(), about, "user-ada")

    def run_starts(self, by: str) -> None:
        run_id = self.new_run()
        self.open[run_id] = by
        self.log.append(RunStarted(), run_id, by)

    def run_ends(self, run_id: str, by: str) -> None:
        """By its author or, for a dead run, in the name of whoever caused it (5.6)."""
        author = self.open.pop(run_id)
        self.log.append(RunFinished(), run_id, by if by == "system" else author)

    def bare_message_comes(self, by: str, parts: int, *, woven: bool) -> None:
        run_id, other = self.new_run(), self.new_run()
        for left in reversed(range(parts)):
            self.log.append(said(self.word()), run_id, by, left)
            if woven and left:
                self.log.append(said(self.word()), other, by, left - 1)

    # --- what the bot does ---

    @rule(more=st.integers(1, 12), again=st.integers(0, 6))
    def events_arrive(self, more: int, again: int) -> None:
        self.feed(self.log.events[max(0, self.position - again) : self.position + more])

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            self.drain.observe(event)
            self.position = max(self.position, event.seq)

    @rule()
    def take(self) -> None:
        """With all beginnings at hand, all that is final and settled nowhere comes, in order."""
        if self.half_here():
            return  # one more event is on its way
        for run_id in self.drain.needs():
            self.drain.fill(run_id, self.log.run(run_id))
        due = self.log.messages(self.settled, self.position)

        self.check(due)
        assert not self.drain.waiting

    def check(self, due: list[tuple[int, int, str]]) -> None:
        taken = self.drain.take()
        if due:
            through = max(final for _, final, _ in due)
            text = "\n\n".join(text for _, _, text in due if text) or None
            assert taken is not None
            assert (taken.text, taken.through_seq) == (text, through)
            self.settled = through
        else:
            assert taken is None
        assert self.drain.settled_seq == self.settled

    @rule()
    def take_at_once(self) -> None:
        """Whatever is missing yet, a checkpoint passes nothing that it did not bring."""
        taken = self.drain.take()
        if taken is not None:
            due = self.log.messages(self.settled, taken.through_seq)
            assert taken.text == ("\n\n".join(text for _, _, text in due if text) or None)
            self.settled = taken.through_seq

    @rule(below=st.integers(0, 20), more=st.integers(1, 12))
    def restart(self, below: int, more: int) -> None:
        """A new process knows the checkpoint only; its window may begin anywhere below."""
        self.drain = InputDrain(BOT, self.settled)
        self.position = max(0, self.settled - below)
        self.events_arrive(more, 0)

    def half_here(self) -> bool:
        """Whether the view ends within a bare message."""
        seen = self.log.events[: self.position]
        last = {event.run_id: event.bare_left for event in seen if event.body != INTERRUPT}
        return any(last.values())

    def teardown(self) -> None:
        """In the end, nothing of anybody is missing."""
        if hasattr(self, "log"):
            self.feed(self.log.events[self.position :])
            self.take()


TestDrainRules = DrainRules.TestCase
TestDrainRules.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
