"""The drain rule: which messages of others are final, and what becomes the next prompt (5.4, 5.5).

Pure. A run is final at the event that made it so, and a message is taken once: when its final seq
lies above everything that is settled. So a checkpoint at `Input.through_seq` covers exactly what
was taken, and a run that began below it but ends above it still drains.
"""

from collections.abc import Iterable
from math import inf

import msgspec

from actors.events import Event, Part, RunFinished, RunStarted
from actors.files import Files
from actors.thread_message import Texts, ThreadMessage, joined

MAX_BATCH = 256
"""Events in one append (12): by then the rest of a bare message has come, or never will."""


class Input(msgspec.Struct, frozen=True):
    """What was final, each message at the place of its first event."""

    messages: tuple[ThreadMessage, ...]
    through_seq: int

    @property
    def text(self) -> str | None:
        """All of it as one text; None when all of it was silent."""
        return joined(message.text for message in self.messages) or None


class _Run:
    """A message by somebody else that is not settled."""

    __slots__ = (
        "bare_left",
        "files",
        "final_seq",
        "first_seq",
        "last_seq",
        "principal_id",
        "silent",
        "started",
        "texts",
    )

    def __init__(self, principal_id: str, first_seq: int, *, silent: bool = False) -> None:
        self.principal_id = principal_id
        self.first_seq = first_seq
        self.last_seq = first_seq
        self.final_seq: int | None = None
        self.silent = silent
        self.started = silent
        self.bare_left = 0
        self.texts, self.files = Texts(), Files()

    def take_in(self, event: Event) -> None:
        self.last_seq = event.seq
        match event.body:
            case RunStarted():
                self.started, self.final_seq = True, None
            case RunFinished():
                self.final_seq = event.seq
            case body:
                if isinstance(body, Part) and not self.silent:
                    self.texts.read(body.chunk)
                    self.files.read(body.chunk)
                if not self.started:
                    self.bare_left = event.bare_left or 0
                    self.final_seq = None if self.bare_left else event.seq

    @property
    def message(self) -> ThreadMessage:
        """What it says: the text parts in order of appearance, a blank line between two."""
        return ThreadMessage(
            principal_id=self.principal_id,
            text=joined(self.texts.parts),
            final_seq=self.final_seq or self.last_seq,
            files=self.files.all,
        )


class InputDrain:
    """What others said on one thread and the bot has not taken yet.

    `floor` is the settlement checkpoint: what was final at or below it never comes out.
    """

    def __init__(self, own_principal_id: str, floor: int) -> None:
        self._own = own_principal_id
        self._floor = floor
        self._settled_seq = floor
        self._seen_seq = 0
        self._view_start = 1
        self._view_author: str | None = None
        self._runs: dict[str, _Run] = {}
        self._headless: dict[str, list[Event]] = {}
        self._counts_bare = False

    @property
    def settled_seq(self) -> int:
        """Everything of others that was final up to here was taken, or lies below the floor."""
        return self._settled_seq

    @property
    def final_seq(self) -> int:
        """The seq up to which others have said something that is final and not taken; else 0."""
        return max((run.final_seq or 0 for run in self._runs.values()), default=0)

    def __len__(self) -> int:
        """Return how many messages are still arriving, or were not taken."""
        return len(self._runs) + len(self._headless)

    @property
    def waiting(self) -> bool:
        """True when `take` would return something."""
        return bool(self._ready())

    @property
    def authors(self) -> set[str]:
        """Who said what `take` would return."""
        return {self._runs[run_id].principal_id for run_id in self._ready()}

    def observe(self, event: Event) -> None:
        """Take in any event, ascending; own ones, and seqs seen before, change nothing (2.7)."""
        if event.seq <= self._seen_seq:
            return
        self._move_view(event)
        run_id = event.run_id
        if run_id is None or not _is_of_a_message(event):
            return
        if run_id in self._headless:
            self._behead(run_id, event)
        elif run_id in self._runs or event.principal_id != self._own:
            self._receive(run_id, event)

    def take(self) -> Input | None:
        """Return all that is final; None when nothing is.

        Messages stand in the order in which they began: so the thread shows them to people (5.5),
        each at the place of its first event.
        """
        ready = self._ready()
        if not ready:
            return None
        runs = sorted((self._runs.pop(run_id) for run_id in ready), key=lambda run: run.first_seq)
        self._settled_seq = max(run.final_seq or 0 for run in runs)
        return Input(tuple(run.message for run in runs), self._settled_seq)

    def needs(self) -> set[str]:
        """Return the runs that began before our view; until filled, later ones wait for them."""
        return set(self._headless)

    def fill(self, run_id: str, events: Iterable[Event]) -> None:
        """Take in a needed run as fetched, ascending; without its beginning it will be silent.

        What was fetched beyond the last observed event is left to `observe`.
        """
        seen = self._headless.pop(run_id, None)
        if seen is None:
            return
        known = (event for event in events if event.seq <= self._seen_seq)
        fetched = {event.seq: event for event in known if _is_of_a_message(event)}
        whole = fetched | {event.seq: event for event in seen}
        ordered = [whole[seq] for seq in sorted(whole)]
        if self._is_own(ordered):
            return
        if not fetched or self._is_headless(ordered):
            first = ordered[0]
            self._runs[run_id] = _Run(first.principal_id, first.seq, silent=True)
        for event in ordered:
            self._receive(run_id, event, begins=True)

    def _move_view(self, event: Event) -> None:
        if event.seq != self._seen_seq + 1:
            self._view_start, self._view_author = event.seq, event.principal_id
        elif event.principal_id != self._view_author:
            self._view_author = None
        self._seen_seq = event.seq
        self._counts_bare |= event.bare_left is not None

    def _receive(self, run_id: str, event: Event, *, begins: bool = False) -> None:
        run = self._runs.get(run_id)
        if run is None:
            if not (begins or self._begins_with(event)):
                self._behead(run_id, event)
                return
            if isinstance(event.body, RunFinished) and not begins:
                return  # its run is settled, or our own
            run = self._runs[run_id] = _Run(event.principal_id, event.seq)
        run.take_in(event)
        if run.final_seq is not None and run.final_seq <= self._settled_seq:
            del self._runs[run_id]

    def _begins_with(self, event: Event) -> bool:
        """Tell whether nothing of the event's run can lie before it.

        A bare message is one batch by one author: only what stands at the beginning of a view,
        with nobody else in between, may be the rest of one. A floor never splits one.
        """
        if isinstance(event.body, RunStarted) or self._view_start == 1:
            return True
        if event.bare_left is None:
            return False
        return self._view_start == self._floor + 1 or self._view_author is None

    def _behead(self, run_id: str, event: Event) -> None:
        if isinstance(event.body, RunFinished) and event.seq <= self._settled_seq:
            self._headless.pop(run_id, None)
        else:
            self._headless.setdefault(run_id, []).append(event)

    def _ready(self) -> list[str]:
        """Return what is final below the first seq at which an unfinished business may be."""
        bound = min(
            [self._may_be_final_at(events) for events in self._headless.values()]
            + [run.first_seq for run in self._runs.values() if self._arrives(run)],
            default=inf,
        )
        return [
            run_id
            for run_id, run in self._runs.items()
            if run.final_seq is not None and run.final_seq < bound
        ]

    def _may_be_final_at(self, events: list[Event]) -> float:
        return next((event.seq for event in events if event.seq > self._settled_seq), inf)

    def _arrives(self, run: _Run) -> bool:
        """Tell whether a bare message is half here: its batch may be woven with another's."""
        return bool(run.bare_left) and self._seen_seq < run.last_seq + MAX_BATCH

    def _is_own(self, events: list[Event]) -> bool:
        said = [event for event in events if not isinstance(event.body, RunFinished)]
        return any(event.principal_id == self._own for event in said)

    def _is_headless(self, events: list[Event]) -> bool:
        """Tell whether even the whole of what is left has no beginning (trimmed history, 7.5)."""
        if any(isinstance(event.body, RunStarted) for event in events):
            return False
        finishes = any(isinstance(event.body, RunFinished) for event in events)
        return finishes or (self._counts_bare and events[0].bare_left is None)


def _is_of_a_message(event: Event) -> bool:
    """Tell whether the event counts for a message; a part we cannot read does, if it is bare."""
    return isinstance(event.body, Part | RunStarted | RunFinished) or event.bare_left is not None
