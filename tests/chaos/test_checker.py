"""The judge of a round can say no: each kind of damage to a log, a view or an answer is told."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.checker import (
    check_absences,
    check_batches,
    check_ledger,
    check_log,
    check_view,
)
from tests.chaos.ledger import Batch, Json, Ledger
from tests.chaos.writers import part, text

ADA, BOB = "user-ada", "bot-b"


def stored(*sent: Json, author: str = ADA) -> list[Json]:
    """Return events as a server shows them to their author."""
    return [
        {**event, "id": f"evt_{author}_{n}", "seq": n, "ts": "t", "principalId": author}
        for n, event in enumerate(sent, 1)
    ]


def run(run_id: str = "run_1") -> list[Json]:
    """Return a whole run, each event with a key."""
    events = [
        {"type": "run_started", "runId": run_id, "payload": {}},
        *text(run_id, "hi"),
        {"type": "run_finished", "runId": run_id, "payload": {"status": "completed"}},
    ]
    return [{**event, "key": f"{run_id}/{n}"} for n, event in enumerate(events)]


def bare(*left: int, run_id: str = "msg_1") -> list[Json]:
    return [
        {**part(run_id, type="text-delta", id="t", delta="x"), "bareLeft": count} for count in left
    ]


def batch(events: list[Json], **more: Any) -> Batch:  # noqa: ANN401  # Batch's own
    return Batch(author=ADA, thread_id="t", events=events, **more)


def receipts(log: list[Json]) -> list[Json]:
    return [{name: event[name] for name in ("id", "seq", "ts", "key")} for event in log]


LOG = stored(*run())


def test_a_good_log_has_no_faults() -> None:
    ledger = Ledger()
    first, second = (ledger.sent(batch(run()[:2])), ledger.sent(batch(run()[2:])))
    ledger.acknowledged(first, receipts(LOG[:2]))
    ledger.acknowledged(second, receipts(LOG[2:]))

    assert check_log(LOG) == []
    assert check_batches(LOG, ADA, ledger.of(ADA, "t")) == []
    assert check_view(LOG, LOG) == []
    assert check_ledger(ledger) == []


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        pytest.param(lambda log: log.pop(2), "gaps", id="a hole"),
        pytest.param(lambda log: log.insert(2, log[1]), "gaps", id="an event twice"),
        pytest.param(lambda log: log.reverse(), "gaps", id="another order"),
        pytest.param(lambda log: log[1].update(id=log[0]["id"]), "twice", id="an id twice"),
        pytest.param(
            lambda log: log[0].update(type="message_part", payload=log[3]["payload"]),
            "not open",
            id="a delta of nothing",
        ),
        pytest.param(
            lambda log: log[3].update(type="run_started"), "only run_started", id="a second start"
        ),
        pytest.param(lambda log: log[2].update(principalId=BOB), "authors", id="another author"),
        pytest.param(
            lambda log: log[2].update(log[4], id="evt_x", seq=3),
            "after run_finished",
            id="a word after the end",
        ),
    ],
)
def test_a_damaged_log_is_told(damage: Callable[[list[Json]], object], fault: str) -> None:
    log = [dict(event) for event in LOG]
    damage(log)

    assert any(fault in told for told in check_log(log)), check_log(log)


@pytest.mark.parametrize("left", [(2, 0), (1, 1, 0), (2, 1), (0, 1), (1,)], ids=str)
def test_a_torn_bare_message_is_told(left: tuple[int, ...]) -> None:
    assert any("torn" in fault for fault in check_log(stored(*bare(*left))))


def test_a_bare_message_with_somebody_elses_word_inside_is_told() -> None:
    one, other = bare(1, 0), bare(0, run_id="msg_2")

    assert not [f for f in check_log(stored(*one, *other)) if "torn" in f]
    assert [f for f in check_log(stored(one[0], *other, one[1])) if "torn" in f]


@pytest.mark.parametrize(
    ("kept", "more", "fault"),
    [
        pytest.param([], {"receipts": [("evt", 1, "t", "run_1/0")]}, "lost", id="lost"),
        pytest.param(
            LOG[:1], {"refused": "seq_conflict"}, "though refused", id="a refused one is there"
        ),
        pytest.param(LOG, {"doomed": True}, "though refused", id="a doomed one is there"),
        pytest.param(LOG[:1], {}, "only a part", id="half of it"),
        pytest.param([LOG[0], *stored(*run())[2:], {**LOG[1], "seq": 9}], {}, "torn", id="torn"),
        pytest.param(LOG, {"expected_seq": 4}, "behind 4 only", id="elsewhere"),
        pytest.param(
            [{**LOG[0], "payload": {"odd": 1}}, *LOG[1:]], {}, "payload sent", id="other content"
        ),
        pytest.param(
            LOG,
            {"receipts": [("evt_other", 1, "t", "run_1/0")]},
            "acknowledged as",
            id="another receipt",
        ),
    ],
)
def test_a_batch_that_is_not_as_it_was_told_is_told(
    kept: list[Json], more: dict[str, Any], fault: str
) -> None:
    faults = check_batches(kept, ADA, [batch(run(), **more)])

    assert any(fault in told for told in faults), faults


def test_an_unanswered_batch_may_be_there_or_not_but_whole() -> None:
    unknown = batch(run(), lost=3)
    late = batch(run(), lost=1, refused="seq_conflict")

    for one in (unknown, late):
        assert check_batches([], ADA, [one]) == []
        assert check_batches(LOG, ADA, [one]) == []
        assert check_batches(LOG[:3], ADA, [one])


def test_what_nobody_sent_and_a_key_that_is_there_twice_are_told() -> None:
    twice = [*LOG, {**LOG[0], "seq": 6, "id": "evt_6"}]

    assert "nobody sent it" in check_batches(LOG, ADA, [])[0]
    assert "a key twice in the log" in check_batches(twice, ADA, [batch(run())])


def test_a_word_of_somebody_without_a_grant_is_told() -> None:
    def change(kind: str) -> Json:
        return {"type": f"participant_{kind}", "payload": {"principalId": BOB}}

    here = [change("joined"), change("role_changed"), *run()]
    gone = [change("joined"), change("left"), *run()]

    assert check_absences(stored(*here, author=BOB), BOB) == []
    assert len(check_absences(stored(*gone, author=BOB), BOB)) == 5
    assert check_absences(stored(*gone, author=ADA), BOB) == []


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(LOG[1:], id="without the first"),
        pytest.param(LOG[:-1], id="without the last"),
        pytest.param([*LOG, LOG[-1]], id="the last twice"),
        pytest.param([*LOG[:-1], {**LOG[-1], "id": "evt_other"}], id="another last"),
    ],
)
def test_a_view_that_is_not_the_log_is_told(view: list[Json]) -> None:
    assert check_view(view, LOG)


def test_answers_that_contradict_each_other_are_told() -> None:
    def told(*answers: Callable[[Ledger, Batch], None], doomed: bool = False) -> list[str]:
        ledger = Ledger()
        one = ledger.sent(batch(run(), doomed=doomed))
        for answer in answers:
            answer(ledger, one)
        return check_ledger(ledger)

    def yes(ledger: Ledger, one: Batch) -> None:
        ledger.acknowledged(one, receipts(LOG))

    def other(ledger: Ledger, one: Batch) -> None:
        ledger.acknowledged(one, receipts([{**event, "seq": 9} for event in LOG]))

    def no(ledger: Ledger, one: Batch) -> None:
        ledger.refused(one, "run_exists")

    def absent(ledger: Ledger, one: Batch) -> None:
        ledger.refused(one, "thread_not_found")

    def taken(ledger: Ledger, _: Batch) -> None:
        ledger.acknowledged(ledger.sent(batch(run("run_2"))), receipts(LOG))

    def made(ledger: Ledger, _: Batch) -> None:
        ledger.made(ADA, "k", "thr_1")
        ledger.made(ADA, "k", "thr_2")

    assert told(yes, yes) == told(yes, absent) == told(no) == []
    assert "two receipts" in told(yes, other)[0]
    assert "then refused" in told(yes, no)[0]
    assert "breaks a rule" in told(yes, doomed=True)[0]
    assert "one id for two events" in told(yes, taken)[0]
    assert "two threads of key k" in told(made)[0]
