"""What becomes of a run that an earlier process left: decided from the log and from evidence.

Pure. A person's message is answered once: what the harness's own record shows as answered is only
published, what it shows as begun goes on, and only what it never got is asked again.
"""

from collections.abc import Sequence

import msgspec

from actors.events import (
    AnyChunk,
    ApprovalGiven,
    DataNotice,
    Draft,
    Event,
    InterruptRequested,
    Notice,
    Part,
    RunFinishedPayload,
    RunStartedPayload,
    TextDelta,
    TextEnd,
    TextStart,
    Trigger,
    part,
)
from actors.leftovers import ending, look
from actors.ports import Evidence, Keyed, OpenRun
from actors.prompt import Prompt
from actors.quoting import quote

RAN = ("tool-output-available", "tool-output-error")
"""Outcomes of a call that ran, or may have."""
MOST_TRIES = 3
"""So often an input may cut down its process before it is given up."""
GO_ON = (
    "[scuba] You were stopped in the middle of your last turn, perhaps while a tool ran. Go on "
    "where you were. Look first what is done already, and do nothing twice. If nothing is left to "
    "do, give your answer."
)
LOOK_FIRST = (
    "[scuba] You were stopped while you worked on what is quoted below, after a tool had run, and "
    "your record of it is lost. Look first what is done already, and do nothing twice. Then go on."
)
GOING_ON = Notice(
    "info", "resumed", "scuba was stopped in the middle of this. The agent goes on where it was."
)
GIVEN_UP = Notice(
    "error",
    "given_up",
    f"scuba was stopped {MOST_TRIES} times while it worked on this, and does not try it again. "
    "Send the message once more if it is still wanted.",
)


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about the run."""

    events: tuple[Keyed, ...] = ()
    """To append first."""
    settles: bool = False
    """Its input is answered, or will not be."""
    goes_on: Prompt | None = None
    """To begin a run with, which answers the same input."""
    preface: str | None = None
    """The input is asked again, but quoted below this, because a tool may have run for it."""


def decide(run: OpenRun, events: Sequence[Event], evidence: Evidence) -> Fate:
    """Return what becomes of a run, given all its events and what the harness has of its prompt."""
    finished = look(events).finished
    if finished is not None and finished.status != "interrupted":
        return Fate(settles=True)
    if any(isinstance(event.body, InterruptRequested) for event in events):
        return Fate(events=tuple(ending(run.run_id, events)), settles=True)
    if evidence.fate == "answered" and not look(events).waits:
        return Fate(events=tuple(_rest(run, events, evidence)), settles=True)
    if run.tries >= MOST_TRIES:
        return Fate(events=tuple(_given_up(run, events)), settles=True)
    if evidence.fate in ("unfinished", "answered") or run.resumes == "session":
        # A harness whose question nobody hears takes it for denied, and may end: no answer yet.
        cut = ending(run.run_id, events, more=[DataNotice(data=GOING_ON)])
        return Fate(events=tuple(cut), goes_on=Prompt(GO_ON, run.through_seq))
    if run.resumes == "input" or _worked(events):
        cut = ending(run.run_id, events, more=[DataNotice(data=GOING_ON)])
        return Fate(events=tuple(cut), preface=LOOK_FIRST)
    return Fate(events=tuple(ending(run.run_id, events)))


def quoted(preface: str, text: str) -> str:
    """Return what is asked again, so that it is read before anything of it is done."""
    return "\n".join([preface, "", *quote(text)])


def _worked(events: Sequence[Event]) -> bool:
    """Tell whether a tool may have run: its outcome is there, or somebody let it run.

    A harness may have lost its record, on a disk that was full, say; the log has not.
    """
    return any(
        (isinstance(event.body, Part) and event.body.chunk.type in RAN)
        or (isinstance(event.body, ApprovalGiven) and event.body.decision == "allow")
        for event in events
    )


def _rest(run: OpenRun, events: Sequence[Event], evidence: Evidence) -> list[Keyed]:
    """Return what is missing of an answer that the harness has whole."""
    found = look(events)
    text = _missing("".join(found.texts), evidence.texts)
    part_id = f"{run.run_id}-rest"
    chunks: list[AnyChunk] = []
    if text:
        chunks = [TextStart(id=part_id), TextDelta(id=part_id, delta=text), TextEnd(id=part_id)]
    completed = RunFinishedPayload(status="completed", through_seq=run.through_seq)
    if events and found.finished is None:
        return ending(run.run_id, events, completed, chunks)
    return _another_run(run, chunks, completed)


def _missing(shown: str, texts: Sequence[str]) -> str:
    whole = "".join(texts)
    if whole.startswith(shown):
        return whole[len(shown) :]
    last = texts[-1] if texts else ""
    return "" if last in shown else last


def _given_up(run: OpenRun, events: Sequence[Event]) -> list[Keyed]:
    failed = RunFinishedPayload(status="failed", reason=GIVEN_UP.text, through_seq=run.through_seq)
    notice = DataNotice(data=GIVEN_UP)
    if events and look(events).finished is None:
        return ending(run.run_id, events, failed, [notice])
    return _another_run(run, [notice], failed)


def _another_run(run: OpenRun, chunks: Sequence[AnyChunk], last: RunFinishedPayload) -> list[Keyed]:
    """Return a run of its own that says this, because the one it belongs to is over."""
    run_id = f"{run.run_id}-rest"
    started = RunStartedPayload(trigger=Trigger(run.through_seq))
    drafts = [Draft("run_started", run_id, started)]
    drafts += [part(run_id, chunk) for chunk in chunks]
    drafts.append(Draft("run_finished", run_id, last))
    return [Keyed(f"{run_id}/{number}", draft) for number, draft in enumerate(drafts)]
