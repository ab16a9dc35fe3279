"""The judge of recorded runs can say no: what breaks a sender rule of 5.3 does not pass."""

from pathlib import Path
from typing import Any

import pytest

from tests.kit import aisdk
from tests.kit.aisdk import fold, lines

Json = dict[str, Any]
RUN = "run_1"


def part(type_: str, **fields: object) -> Json:
    chunk = {"type": type_, **fields}
    return {"type": "message_part", "runId": RUN, "payload": {"chunk": chunk}}


def begun() -> Json:
    return {"type": "run_started", "runId": RUN, "payload": {}}


def done() -> Json:
    return {"type": "run_finished", "runId": RUN, "payload": {"status": "completed"}}


def text(step: str, kind: str = "text", id_: str = "t1", **fields: object) -> Json:
    return part(f"{kind}-{step}", id=id_, **fields)


def said(words: str = "hi", kind: str = "text", id_: str = "t1") -> list[Json]:
    return [
        text("start", kind, id_),
        text("delta", kind, id_, delta=words),
        text("end", kind, id_),
    ]


def call(type_: str, **fields: object) -> Json:
    return part(f"tool-{type_}", toolCallId="c1", **fields)


def shown(**fields: object) -> Json:
    return call("input-available", toolName="Bash", input={}, **fields)


OUTPUT = call("output-available", output="x")
DENIED = call("output-denied")
ASKED = call("approval-request", approvalId="c1")


GOOD = {
    "a text": said(),
    "a thought and a text": [*said("hm", "reasoning", "r"), *said()],
    "an id used again after its end": [*said(), *said()],
    "a call": [shown(), OUTPUT],
    "an allowed call": [shown(), ASKED, OUTPUT],
    "a denied call": [shown(), ASKED, DENIED],
    "an early output": [shown(), call("output-available", output="1", preliminary=True), OUTPUT],
    "an input bit by bit": [
        call("input-start", toolName="Bash"),
        call("input-delta", inputTextDelta="{}"),
        shown(),
        OUTPUT,
    ],
    "a sub-agent": [shown(childThreadId="s", toolMetadata={"childThreadId": "s"}), OUTPUT],
    "a notice": [part("data-notice", data={"level": "info"})],
    "nothing": [],
}
BAD = {
    "a delta of nothing": ([text("delta", delta="hi")], "not open"),
    "an end of nothing": ([text("end")], "not open"),
    "a delta after the end": ([*said(), text("delta", delta="more")], "not open"),
    "a thought in a text": (
        [text("start"), text("delta", "reasoning", delta="hm"), text("end")],
        "not open",
    ),
    "a text left open": ([text("start"), text("delta", delta="hi")], "open at the end"),
    "a text begun twice": ([text("start"), *said()], "open already"),
    "a delta that is no text": ([text("start"), text("delta", delta=3)], "schema refuses"),
    "an unknown chunk": ([part("text-foo", id="t1")], "schema refuses"),
    "a call without input": ([call("input-available", toolName="Bash")], "schema refuses"),
    "an output of nothing": ([OUTPUT], "unknown call"),
    "a denial of nothing": ([DENIED], "unknown call"),
    "a question about nothing": ([ASKED], "while it is undefined"),
    "a call left open": ([shown()], "without an outcome"),
    "a question left open": ([shown(), ASKED], "without an outcome"),
    "a question of its own name": (
        [shown(), call("approval-request", approvalId="other"), DENIED],
        "has the id other",
    ),
    "a question asked twice": ([shown(), ASKED, ASKED, DENIED], "while it is asked"),
    "two outputs": ([shown(), OUTPUT, OUTPUT], "has its outcome"),
    "an output after a denial": ([shown(), DENIED, OUTPUT], "has its outcome"),
    "a question after the output": ([shown(), OUTPUT, ASKED], "has its outcome"),
    "a call shown twice": ([shown(), shown(), OUTPUT], "shown twice"),
    "a bit of no input": ([call("input-delta", inputTextDelta="{"), shown()], "unknown call"),
    "a thread named once": ([shown(childThreadId="s"), OUTPUT], "names its thread"),
    "a text after the finish": ([part("finish"), *said()], "after finish"),
    "a text open at the abort": ([text("start"), part("abort")], "open at the abort"),
    "an error": ([part("error", errorText="boom")], "error chunk"),
    # The SDK's own word, of which no rule of ours knows:
    "a text beyond its step": (
        [part("start-step"), text("start"), part("finish-step"), text("delta", delta="x")],
        "the fold refuses it",
    ),
}


def log_of(thread_id: str, *events: Json) -> list[Json]:
    return [{**event, "threadId": thread_id, "seq": seq} for seq, event in enumerate(events, 1)]


def judged(*events: Json) -> list[str]:
    """Return the faults of a thread of these events."""
    verdicts = fold(lines(log_of("thr_1", *events)))
    return [fault for verdict in verdicts for fault in verdict.faults]


@pytest.fixture(scope="module")
def faults() -> dict[str, list[str]]:
    """The faults of each sequence below; one judge sees them all, for the time it takes to load."""
    cases = {**GOOD, **{name: parts for name, (parts, _) in BAD.items()}}
    log = [
        event for name, parts in cases.items() for event in log_of(name, begun(), *parts, done())
    ]
    return {verdict.thread_id: verdict.faults for verdict in fold(lines(log))}


@pytest.mark.parametrize("name", GOOD)
def test_what_keeps_the_rules_passes(faults: dict[str, list[str]], name: str) -> None:
    assert faults[name] == []


@pytest.mark.parametrize("name", BAD)
def test_what_breaks_a_rule_is_refused(faults: dict[str, list[str]], name: str) -> None:
    _, fault = BAD[name]

    assert any(fault in told for told in faults[name]), faults[name]


def test_half_a_character_is_refused() -> None:
    """What no JSON of ours could hold: the line is written by hand."""
    log = lines({**e, "threadId": "t", "seq": 1} for e in (begun(), *said("HALF"), done()))

    (verdict,) = fold(log.replace("HALF", "\\ud83d"))

    assert verdict.faults == ["half a character in t1"]


def test_a_run_begins_ends_and_says_no_more() -> None:
    assert judged(begun(), *said()) == ["never finished"]
    assert judged(*said(), done()) == ["never started"]
    assert judged(begun(), done(), *said()) == ["message_part after run_finished"] * 3


def test_each_run_is_judged_by_itself() -> None:
    events = [begun(), *said(), done()]
    log = [
        {**event, "threadId": thread, "runId": run, "seq": seq}
        for seq, event in enumerate(events, 1)
        for thread in ("a", "b")
        for run in ("run_1", "run_2")
    ]
    log[-1] = {**log[-1], "type": "x.not.an.end"}

    verdicts = {(v.thread_id, v.run_id): v.faults for v in fold(lines(log))}

    assert verdicts.pop(("b", "run_2")) == ["never finished"]
    assert verdicts == {("a", "run_1"): [], ("a", "run_2"): [], ("b", "run_1"): []}


@pytest.mark.parametrize("text", ["", "no json\n", '{"seq": 1}\n', "{}\n"])
def test_what_is_no_log_is_not_judged_good(text: str) -> None:
    with pytest.raises(AssertionError, match=r"fold\.mjs: (no events|line 1 is no event)"):
        fold(text)


def test_a_missing_sdk_fails_in_ci_and_says_how_to_install_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aisdk, "HERE", tmp_path)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="npm ci --prefix tests/aisdk"):
        fold("")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="just aisdk"):
        fold("")


def test_the_lock_file_names_no_registry() -> None:
    """So that each machine asks its own."""
    lock = (aisdk.HERE / "package-lock.json").read_text()

    assert "resolved" not in lock
    assert "://" not in lock.replace('"url": "https://github.com/', "")
