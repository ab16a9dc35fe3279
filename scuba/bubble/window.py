"""The newest events of a thread, put together from pages until nothing is missing (7.1). No I/O.

A page may end early for reasons of size, so what is missing is told by arithmetic: a log has no
holes (5.1). A run that the window would cut is told by its start, or by the server's `aligned`.
"""

from collections.abc import Sequence

import msgspec

from actors.events import Event, Part, RunFinished, RunStarted
from actors.ports import Unavailable
from scuba.wire import Page, to_event

MOST_EVENTS = 1_000
"""That a page holds (7.1)."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask for next; one of the three is set, `after` beside `tail` as a floor."""

    after: int | None = None
    before: int | None = None
    tail: int | None = None


class Window:
    """At most the newest `newest` events above `after`, as far as they are known.

    Runs of `own` are not completed downwards: nobody drains them.
    """

    def __init__(self, after: int, newest: int, own: str) -> None:
        self._after, self._newest, self._own = after, newest, own
        self._events: dict[int, Event] = {}
        self._lowest, self._highest = 0, 0  # of the stretch without holes
        self._bottom, self._head, self._first_seq = 0, 0, 0
        self._is_open = newest > 0
        self._is_aligned = True

    def next_query(self) -> Query | None:
        """Return what to ask the server for, or None when nothing is missing."""
        if not self._is_open:
            return None
        if not self._head:
            return Query(tail=min(self._newest, MOST_EVENTS), after=self._after)
        if self._highest < self._head:
            return Query(after=self._highest)
        if self._lowest > self._bottom:
            return Query(before=self._lowest)
        return None

    def add(self, page: Page) -> None:
        """Take the answer to `next_query()`; raises Unavailable when it does not answer it."""
        is_first = not self._head
        if is_first:
            self._begin(page)
        if not self._is_open:
            return
        for envelope in page.events:
            if envelope.seq <= self._head:
                self._events.setdefault(envelope.seq, to_event(envelope))
        before = self._lowest, self._highest
        self._stretch(is_first=is_first, page=page)
        if is_first or self._lowest < before[0]:
            # A lower page is aligned to its own runs only, so each page has to be.
            self._is_aligned = self._is_aligned and page.aligned is True
        if before == (self._lowest, self._highest):
            self._head = 0 if is_first else self._head
            raise Unavailable(f"a page of thread {page.thread_id} misses events up to {self._head}")

    def cut_runs(self) -> set[str]:
        """Return the foreign runs whose beginning is missing; their events go to `add_run()`."""
        if self._is_aligned or self._lowest <= self._first_seq:
            return set()
        whole = {e.run_id for e in self._events.values() if isinstance(e.body, RunStarted)}
        whole |= {
            # A bare message is one batch, so what stands before it has not cut it (5.4).
            e.run_id
            for e in self._events.values()
            if e.bare_left is not None and self._run_begins_inside(e)
        }
        return self._runs() - {run_id for run_id in whole if run_id is not None}

    def add_run(self, events: Sequence[Event]) -> None:
        """Take every event of a run that was cut."""
        for event in events:
            if event.seq <= self._head:
                self._events.setdefault(event.seq, event)

    def result(self) -> tuple[Event, ...]:
        """Return the events, ascending: the window, and below it the beginnings of its runs."""
        runs = self._runs()
        return tuple(
            event
            for seq, event in sorted(self._events.items())
            if seq >= self._bottom or event.run_id in runs
        )

    def _begin(self, page: Page) -> None:
        self._head, self._first_seq = page.last_seq, page.first_seq
        self._bottom = max(self._after, self._head - self._newest, self._first_seq - 1) + 1
        self._is_open = self._head >= self._bottom

    def _stretch(self, *, is_first: bool, page: Page) -> None:
        if is_first and page.events:
            self._lowest = self._highest = min(page.events[-1].seq, self._head)
        while self._lowest and self._lowest - 1 in self._events:
            self._lowest -= 1
        while self._highest and self._highest + 1 in self._events:
            self._highest += 1

    def _run_begins_inside(self, event: Event) -> bool:
        lowest = self._events[self._lowest]
        return event.run_id != lowest.run_id

    def _runs(self) -> set[str]:
        return {
            event.run_id
            for seq, event in self._events.items()
            if seq >= self._bottom
            and event.run_id is not None
            and event.principal_id != self._own
            and isinstance(event.body, Part | RunStarted | RunFinished)
        }
