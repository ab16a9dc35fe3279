"""How a run that its process left open is ended: well framed, under keys derived from the run."""

import logging
from collections.abc import Iterable, Sequence

import msgspec
import trio

from actors.events import (
    AnyChunk,
    ApprovalGiven,
    DataNotice,
    Draft,
    Event,
    Notice,
    Part,
    ReasoningEnd,
    ResultGiven,
    RunFinished,
    RunFinishedPayload,
    RunStartedPayload,
    SeenChunk,
    TextEnd,
    ToolOutputError,
    part,
)
from actors.pending import BATCH_EVENTS
from actors.ports import Keyed, Refused, ThreadLog, Unavailable

logger = logging.getLogger(__name__)

RETRY_S = 2.0
STOPPED = "scuba was stopped while this was running"
INTERRUPTED = RunFinishedPayload(status="interrupted", reason=STOPPED)
EXPIRED = Notice(
    "warning",
    "approval_expired",
    "A decision was waited for when scuba was stopped. The request has expired: an answer has no "
    "effect any more. If the call is still needed, it is asked for anew.",
)
PARKED = Notice(
    "error",
    "thread_parked",
    "scuba fails here again and again, and leaves this thread alone now. What is not answered is "
    "taken up when scuba is started anew, or is taken off this thread and put on it again.",
)
OUTCOMES = ("tool-output-available", "tool-output-error", "tool-output-denied")
CALLS = ("tool-input-start", "tool-input-available")
ASKS = "tool-approval-request"


class Open(msgspec.Struct):
    """What of a run is open at the end of what the log has of it."""

    finished: RunFinished | None = None
    parts: dict[str, AnyChunk] = {}
    """By id, the chunk that would end it."""
    calls: dict[str, bool] = {}
    """By id, whether a decision about it was asked for."""
    answered: set[str] = set()
    """Calls that somebody gave an answer to, valid or not."""
    texts: list[str] = []
    """The run's text parts so far, in order."""

    @property
    def waits(self) -> bool:
        """Whether a call was asked for and nobody has answered."""
        return any(asked and call not in self.answered for call, asked in self.calls.items())

    def take(self, chunk: SeenChunk) -> None:
        """Take in one chunk of the run."""
        id_, call = chunk.id or "", chunk.tool_call_id or ""
        match chunk.type:
            case "text-start":
                self.parts[id_] = TextEnd(id=id_)
                self.texts.append("")
            case "text-delta" if self.texts:
                self.texts[-1] += chunk.delta or ""
            case "reasoning-start":
                self.parts[id_] = ReasoningEnd(id=id_)
            case "text-end" | "reasoning-end":
                self.parts.pop(id_, None)
            case kind if kind in CALLS:
                self.calls.setdefault(call, False)
            case kind if kind == ASKS:
                self.calls[call] = True
            case kind if kind in OUTCOMES:
                self.calls.pop(call, None)
            case _:
                pass


def look(events: Iterable[Event]) -> Open:
    """Return what is open of our run, given all its events."""
    found = Open()
    for event in events:
        match event.body:
            case RunFinished() as finished:
                found.finished = finished
            case Part(chunk):
                found.take(chunk)
            case ApprovalGiven() | ResultGiven() as given:
                found.answered.add(given.tool_call_id)
            case _:
                pass
    return found


def ending(
    run_id: str,
    events: Sequence[Event],
    last: RunFinishedPayload = INTERRUPTED,
    more: Sequence[AnyChunk] = (),
) -> list[Keyed]:
    """Return what ends our run, given all its events; empty when it is finished or never began.

    `more` comes before its end. The keys are derived from the run, so that doing it twice ends it
    once (6.2).
    """
    found = look(events)
    if not events or found.finished is not None:
        return []
    chunks: list[AnyChunk] = list(found.parts.values())
    chunks += [ToolOutputError(tool_call_id=call, error_text=STOPPED) for call in found.calls]
    if any(found.calls.values()):
        chunks.append(DataNotice(data=EXPIRED))
    drafts = [part(run_id, chunk) for chunk in [*chunks, *more]]
    drafts.append(Draft("run_finished", run_id, last))
    return [Keyed(f"{run_id}/end/{number}", draft) for number, draft in enumerate(drafts)]


async def end(log: ThreadLog, thread_id: str, run_id: str, more: Sequence[AnyChunk] = ()) -> bool:
    """Return when a run of ours is ended on the server, or the server refuses to let us.

    True if it was still open, so that `more` stands before its end.
    """
    try:
        batch = ending(run_id, await log.run_events(thread_id, run_id), more=more)
    except Refused as refused:
        logger.warning("cannot end run %s: %s", run_id, refused)
        return False
    if batch:
        await append(log, thread_id, batch)
        logger.info("ended run %s, left open earlier", run_id)
    return bool(batch)


async def park(log: ThreadLog, thread_id: str, open_runs: Sequence[str], spare_run_id: str) -> None:
    """Return when a thread's open runs are ended, and people on it read that it is left alone.

    Without an open run that is said in one of its own, which answers nothing.
    """
    said = False
    for run_id in open_runs:
        said |= await end(log, thread_id, run_id, () if said else [DataNotice(data=PARKED)])
    if not said:
        failed = RunFinishedPayload(status="failed", reason=PARKED.text)
        drafts = [
            Draft("run_started", spare_run_id, RunStartedPayload()),
            part(spare_run_id, DataNotice(data=PARKED)),
            Draft("run_finished", spare_run_id, failed),
        ]
        keys = (f"{spare_run_id}/{number}" for number in range(len(drafts)))
        batch = [Keyed(key, draft) for key, draft in zip(keys, drafts, strict=True)]
        await append(log, thread_id, batch)


async def resend(log: ThreadLog, thread_id: str, unsent: Sequence[Keyed]) -> None:
    """Return when what was on record to be sent is on the server, or refused there."""
    for start in range(0, len(unsent), BATCH_EVENTS):
        await append(log, thread_id, unsent[start : start + BATCH_EVENTS])


async def append(log: ThreadLog, thread_id: str, batch: Sequence[Keyed]) -> None:
    """Return when events are on the server, or refused there, which is logged."""
    while True:
        try:
            await log.append(thread_id, batch)
        except Unavailable as unavailable:
            await trio.sleep(unavailable.retry_after_s or RETRY_S)
        except Refused as refused:
            logger.warning("cannot append what an earlier process left: %s", refused)
            return
        else:
            return
