"""Window: whatever pages a log is cut into, what comes out is whole (field case 2.3)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.events import Event, RunStarted
from actors.ports import Unavailable
from scuba import wire
from scuba.bubble.window import Query, Window

OWN = "bot-research"
OTHERS = ["user-ada", "bot-other"]
RUNS = ["run_1", "run_2", "run_3"]


class Log:
    """A thread as a server holds it, which cuts its pages where `cuts` says."""

    def __init__(self, events: list[wire.Envelope], cuts: list[int], aligns: list[bool]) -> None:
        self.events, self._cuts, self._aligns = events, iter(cuts), iter(aligns)
        self.first_seq = 1

    def beginning(self, run_id: str | None) -> int:
        return next(e.seq for e in self.events if e.run_id == run_id)

    def page(self, query: Query) -> wire.Page:
        size = next(self._cuts, 3)
        aligned: bool | None = None
        if query.before is not None or query.tail is not None:
            floor = 0 if query.tail is None else max(query.after or 0, self.last - query.tail)
            top = query.before or self.last + 1
            wanted = [e for e in self.events if floor < e.seq < top][-size:]
            aligned = next(self._aligns, False)
            if aligned and wanted:
                wanted = self.extended(wanted)
        else:
            wanted = [e for e in self.events if e.seq > (query.after or 0)][:size]
        return wire.Page(
            thread_id="thr_a",
            log_epoch="e-1",
            events=wanted,
            first_seq=self.first_seq,
            last_seq=self.last,
            has_more=True,
            aligned=aligned,
        )

    def extended(self, wanted: list[wire.Envelope]) -> list[wire.Envelope]:
        while True:
            runs = {e.run_id for e in wanted if e.principal_id != OWN and e.run_id is not None}
            first = min([self.beginning(run_id) for run_id in runs], default=wanted[0].seq)
            if first >= wanted[0].seq:
                return wanted
            wanted = self.events[first - 1 : wanted[-1].seq]

    @property
    def last(self) -> int:
        return len(self.events)


def started(seq: int, author: str, run_id: str) -> wire.Envelope:
    return envelope(seq, author, "run_started", run_id)


def envelope(
    seq: int, author: str, kind: str, run_id: str | None, bare_left: int | None = None
) -> wire.Envelope:
    payload = {"chunk": {"type": "text-delta", "id": "t", "delta": "ok"}, "status": "completed"}
    return wire.Envelope(
        id=f"evt_{seq}",
        thread_id="thr_a",
        seq=seq,
        ts="",
        principal_id=author,
        type=kind,
        run_id=run_id,
        payload=msgspec.Raw(msgspec.json.encode(payload)),
        bare_left=bare_left,
    )


@st.composite
def logs(draw: st.DrawFn) -> list[wire.Envelope]:
    """Runs of several authors mixed, and bare messages, each a batch of its own."""
    events: list[wire.Envelope] = []
    authors: dict[str, str] = {}
    for step in draw(st.lists(st.sampled_from([*RUNS, "bare", "other"]), max_size=25)):
        seq = len(events) + 1
        if step == "other":
            events.append(envelope(seq, "user-ada", "thread_updated", None))
        elif step == "bare":
            count = draw(st.integers(1, 3))
            events += [
                envelope(seq + k, "user-ada", "message_part", f"msg_{seq}", count - 1 - k)
                for k in range(count)
            ]
        elif step not in authors:
            authors[step] = draw(st.sampled_from([OWN, *OTHERS]))
            events.append(started(seq, authors[step], step))
        else:
            kind = draw(st.sampled_from(["message_part", "message_part", "run_finished"]))
            events.append(envelope(seq, authors[step], kind, step))
    return events


def fill(window: Window, log: Log) -> tuple[Event, ...]:
    while (query := window.next_query()) is not None:
        window.add(log.page(query))
    for run_id in window.cut_runs():
        window.add_run([wire.to_event(e) for e in log.events if e.run_id == run_id])
    return window.result()


@given(
    events=logs(),
    after=st.integers(0, 30),
    newest=st.integers(0, 30),
    cuts=st.lists(st.integers(1, 5), max_size=30),
    aligns=st.lists(st.booleans(), max_size=30),
)
def test_nothing_is_missing_and_no_run_is_cut(
    events: list[wire.Envelope], after: int, newest: int, cuts: list[int], aligns: list[bool]
) -> None:
    result = fill(Window(after, newest, OWN), Log(events, cuts, aligns))

    seqs = [event.seq for event in result]
    floor = max(after, len(events) - newest)
    foreign = {e.run_id for e in events if e.seq > floor and e.principal_id != OWN and e.run_id}
    must = {e.seq for e in events if e.seq > floor or e.run_id in foreign}
    assert seqs == sorted(set(seqs))
    assert {seq for seq in seqs if seq > floor} == {e.seq for e in events if e.seq > floor}
    assert must <= set(seqs)
    assert {e.run_id for e in result if e.seq <= floor} <= foreign


def test_a_page_with_a_hole_is_no_answer() -> None:
    window = Window(0, 10, OWN)
    log = Log([envelope(seq, "user-ada", "message_part", "run_1") for seq in (1, 2, 3, 4)], [], [])
    query = window.next_query()
    assert query == Query(tail=10, after=0)
    window.add(msgspec.structs.replace(log.page(query), events=log.events[2:]))
    assert window.next_query() == Query(before=3)
    with pytest.raises(Unavailable, match="misses events"):
        window.add(msgspec.structs.replace(log.page(query), events=log.events[:1]))


def test_a_run_that_began_below_the_floor_is_fetched_when_the_server_did_not_align() -> None:
    """Field case 2.3: a run whose beginning is missing is never handed over."""
    events = [started(1, "user-ada", "run_1")]
    events += [envelope(seq, "user-ada", "message_part", "run_1") for seq in range(2, 6)]
    window = Window(4, 10, OWN)
    log = Log(events, [9], [False])
    query = window.next_query()
    assert query is not None
    window.add(log.page(query))

    assert window.cut_runs() == {"run_1"}
    assert isinstance(fill(window, log)[0].body, RunStarted)
