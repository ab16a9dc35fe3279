"""The checker of the bot's chaos finds what it is there to find."""

from typing import Any

import pytest

from tests.chaos.bots.checker import check_deeds, check_thread

Json = dict[str, Any]
BOT, ADA = "bot-claude", "user-ada"


def log(*events: Json) -> list[Json]:
    return [{"seq": seq, **event} for seq, event in enumerate(events, start=1)]


def by(who: str, kind: str, run_id: str, **payload: object) -> Json:
    return {"type": kind, "runId": run_id, "principalId": who, "payload": payload}


def started(run_id: str, through: int | None) -> Json:
    trigger = {} if through is None else {"throughSeq": through}
    return by(BOT, "run_started", run_id, trigger=trigger)


def finished(run_id: str, status: str = "completed") -> Json:
    return by(BOT, "run_finished", run_id, status=status)


def says(run_id: str, text: str) -> list[Json]:
    chunks: list[Json] = [
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text},
        {"type": "text-end", "id": "t"},
    ]
    return [by(BOT, "message_part", run_id, chunk=chunk) for chunk in chunks]


SAID = by(ADA, "message_part", "msg_1", chunk={"type": "data-notice", "data": "hi"})
ERROR = by(
    BOT,
    "message_part",
    "r1",
    chunk={"type": "data-notice", "data": {"level": "error", "code": "x", "text": "x"}},
)
STOP = by(ADA, "run_interrupt_requested", "r1")
CUT = (started("r1", 1), finished("r1", "interrupted"))
ANSWERED = (started("r1", 1), *says("r1", "m1-a"), finished("r1"))


@pytest.mark.parametrize(
    "events",
    [
        (SAID, *ANSWERED),
        (SAID, *CUT, started("r2", 1), finished("r2")),
        (SAID, *CUT, started("r1-rest", 1), *says("r1-rest", "m1-a"), finished("r1-rest")),
        (SAID, started("r1", 1), ERROR, finished("r1", "failed")),
        (SAID, started("r1", 1), STOP, finished("r1", "interrupted")),
    ],
)
def test_a_message_that_was_dealt_with_once_is_right(events: tuple[Json, ...]) -> None:
    assert check_thread(log(*events), BOT, [1]) == []


@pytest.mark.parametrize(
    ("events", "word"),
    [
        ((SAID,), "never dealt with"),
        ((SAID, *CUT), "never dealt with"),
        ((SAID, *ANSWERED, started("r2", 1), finished("r2")), "again"),
        ((SAID, *ANSWERED, started("r2", 1), finished("r2", "interrupted")), "again"),
        ((SAID, started("r1", 1), finished("r1", "failed")), "without a word"),
        ((SAID, started("r1", None), finished("r1")), "nobody knows"),
        ((SAID, started("r1", 1), *says("r1", "m1-a")), "never ended"),
        ((SAID, started("r1", 1), *says("r1", "m1-a")[1:], finished("r1")), "r1"),
        ((SAID, started("r1", 1), *says("r1", "m1-a m1-a"), finished("r1")), "2 times"),
        ((SAID, *ANSWERED, *ANSWERED[1:]), "r1"),
    ],
)
def test_what_is_lost_doubled_or_torn_is_found(events: tuple[Json, ...], word: str) -> None:
    found = check_thread(log(*events), BOT, [1])

    assert any(word in fault for fault in found), found


def test_a_seq_that_is_missing_is_found() -> None:
    events = log(SAID, *ANSWERED)
    del events[2]

    assert check_thread(events, BOT, [1])


CALL = by(
    BOT,
    "message_part",
    "r1",
    chunk={
        "type": "tool-input-available",
        "toolCallId": "c1",
        "toolName": "Bash",
        "input": {"command": "echo m1-ran >> ledger"},
    },
)


def decided(decision: str, call: str = "c1") -> Json:
    return by(ADA, "tool_call_approval", "r1", toolCallId=call, decision=decision)


@pytest.mark.parametrize(
    ("ledger", "events", "faults"),
    [
        ([], (CALL, decided("deny")), 0),
        (["m1-ran"], (CALL, decided("allow")), 0),
        (["m1-ran"], (CALL, decided("deny")), 1),
        (["m1-ran"], (CALL, decided("allow", "c2")), 1),
        (["m1-ran", "m1-ran"], (CALL, decided("allow")), 1),
        (["m2-ran"], (CALL, decided("allow")), 1),
    ],
)
def test_what_was_done_twice_or_unasked_is_found(
    ledger: list[str], events: tuple[Json, ...], faults: int
) -> None:
    assert len(check_deeds(ledger, {"thr": log(*events)}, BOT)) == faults
