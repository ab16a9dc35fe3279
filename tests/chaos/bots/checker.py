"""What must be true of a thread after any chaos: judged from the server's log, and nothing else."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.kit.person import Seen, faults

Json = dict[str, Any]
WORDS = re.compile(r"m\d+-[ab]")
DEEDS = re.compile(r"(m\d+)-ran")


class Run:
    """What the log says of one run of the bot's."""

    def __init__(self, run_id: str, through_seq: int | None) -> None:
        self.run_id, self.through_seq = run_id, through_seq
        self.answers_a_task = False
        """Nobody wrote what it answers: a report, or the task of a sub-agent."""
        self.status: str | None = None
        self.reason = ""
        self.stopped_by_person = False
        self.notices: list[Json] = []
        self.texts: list[str] = []

    @property
    def settles(self) -> bool:
        """Whether its input counts as dealt with: answered, failed, or stopped by somebody."""
        return self.status in ("completed", "failed") or self.stopped_by_person


def runs_of(events: Iterable[Json], bot: str) -> list[Run]:
    """Return the bot's runs in the order in which they began."""
    runs: dict[str, Run] = {}
    for event in events:
        run_id, payload = event.get("runId"), event["payload"]
        if event["type"] == "run_started" and event["principalId"] == bot:
            trigger = payload.get("trigger") or {}
            runs[event["runId"]] = Run(event["runId"], trigger.get("throughSeq"))
            runs[event["runId"]].answers_a_task = "taskId" in trigger or "parent" in payload
        run = runs.get(run_id or "")
        if run is None:
            continue
        match event["type"]:
            case "run_interrupt_requested" if run.status is None:
                run.stopped_by_person = True
            case "run_finished":
                run.status, run.reason = payload["status"], payload.get("reason") or ""
            case "message_part":
                chunk = payload["chunk"]
                if chunk["type"] == "data-notice":
                    run.notices.append(chunk["data"])
                elif chunk["type"] == "text-delta":
                    run.texts.append(chunk["delta"])
            case _:
                pass
    return list(runs.values())


def check_thread(events: Sequence[Json], bot: str, said: Iterable[int]) -> list[str]:
    """Return every promise that the log of one thread breaks.

    `said`: the seqs at which people's messages were final. Each is dealt with by exactly one run:
    one that completed, one that failed and said so, or one that a person stopped.
    """
    runs = runs_of(events, bot)
    return [
        *faults(Seen(events)),
        *_check_order(runs),
        *_check_covered(runs, said),
        *_check_said(runs),
        *_check_words(runs),
    ]


def check_below(events: Sequence[Json], bot: str) -> list[str]:
    """Return every promise that the log of a sub-agent's thread breaks."""
    return [*faults(Seen(events)), *_check_said(runs_of(events, bot))]


def _check_order(runs: Sequence[Run]) -> list[str]:
    found: list[str] = []
    settled = 0
    for run in runs:
        if run.answers_a_task:
            continue
        if run.through_seq is None:
            found.append(f"{run.run_id}: nobody knows what it answers")
        elif run.through_seq <= settled:
            found.append(f"{run.run_id}: answers {run.through_seq} again, {settled} is settled")
        elif run.settles:
            settled = run.through_seq
    return found


def _check_covered(runs: Sequence[Run], said: Iterable[int]) -> list[str]:
    settled = max((run.through_seq or 0 for run in runs if run.settles), default=0)
    return [f"what was said at {seq} was never dealt with" for seq in said if seq > settled]


def _check_said(runs: Sequence[Run]) -> list[str]:
    """A failure is told with its cause; so is every message that is given up."""
    return [
        f"{run.run_id}: failed without a word"
        for run in runs
        if run.status == "failed" and not any(one["level"] == "error" for one in run.notices)
    ]


def _check_words(runs: Sequence[Run]) -> list[str]:
    """No word of an answer stands in two runs that completed, nor twice in one."""
    count = Counter(
        word
        for run in runs
        if run.status == "completed"
        for word in WORDS.findall("".join(run.texts))
    )
    return [f"{word} was said {times} times" for word, times in count.items() if times > 1]


def check_deeds(ledger: Sequence[str], events: Mapping[str, Sequence[Json]], bot: str) -> list[str]:
    """Return what was done twice, or without that somebody allowed it.

    `ledger`: what the tools wrote when they ran, a line each; `events`: all logs, by thread.
    """
    done = Counter(deed for line in ledger for deed in DEEDS.findall(line))
    found = [f"{deed} was done {times} times" for deed, times in done.items() if times > 1]
    allowed: set[str] = set()
    for log in events.values():
        commands: dict[str, str] = {}
        for event in log:
            chunk = event["payload"].get("chunk", {})
            if event["principalId"] == bot and chunk.get("type") == "tool-input-available":
                commands[chunk["toolCallId"]] = str(chunk["input"].get("command", ""))
            if event["type"] == "tool_call_approval" and event["payload"]["decision"] == "allow":
                allowed |= set(DEEDS.findall(commands.get(event["payload"]["toolCallId"], "")))
    return found + [f"{deed} was done and nobody allowed it" for deed in set(done) - allowed]
