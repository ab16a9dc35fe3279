"""How a run that its process left open is ended: well framed, and as interrupted."""

import logging
from collections.abc import Sequence

import trio

from actors.events import (
    AnyChunk,
    Draft,
    Event,
    Part,
    ReasoningEnd,
    RunFinished,
    RunFinishedPayload,
    SeenChunk,
    TextEnd,
    ToolOutputError,
    part,
)
from actors.ports import Keyed, Refused, ThreadLog, Unavailable

logger = logging.getLogger(__name__)

RETRY_S = 2.0
STOPPED = "scuba was stopped while this was running"
OUTCOMES = ("tool-output-available", "tool-output-error", "tool-output-denied")
CALLS = ("tool-input-start", "tool-input-available")


def ending(run_id: str, events: Sequence[Event]) -> list[Keyed]:
    """Return what ends our run, given all its events; empty when it is finished or never began.

    The keys are derived from the run, so that doing it twice ends it once (6.2).
    """
    if not events:
        return []
    open_parts: dict[str, AnyChunk] = {}
    open_calls: dict[str, None] = {}
    for event in events:
        if isinstance(event.body, RunFinished):
            return []
        if isinstance(event.body, Part):
            _note(event.body.chunk, open_parts, open_calls)
    chunks: list[AnyChunk] = list(open_parts.values())
    chunks += [ToolOutputError(tool_call_id=call, error_text=STOPPED) for call in open_calls]
    drafts = [part(run_id, chunk) for chunk in chunks]
    last = RunFinishedPayload(status="interrupted", reason=STOPPED)
    drafts.append(Draft("run_finished", run_id, last))
    return [Keyed(f"{run_id}/end/{number}", draft) for number, draft in enumerate(drafts)]


def _note(chunk: SeenChunk, parts: dict[str, AnyChunk], calls: dict[str, None]) -> None:
    id_, call = chunk.id or "", chunk.tool_call_id or ""
    match chunk.type:
        case "text-start":
            parts[id_] = TextEnd(id=id_)
        case "reasoning-start":
            parts[id_] = ReasoningEnd(id=id_)
        case "text-end" | "reasoning-end":
            parts.pop(id_, None)
        case kind if kind in CALLS:
            calls[call] = None
        case kind if kind in OUTCOMES:
            calls.pop(call, None)
        case _:
            pass


async def end(log: ThreadLog, thread_id: str, run_id: str) -> None:
    """Return when a run of ours is ended on the server, or the server refuses to let us."""
    try:
        batch = ending(run_id, await log.run_events(thread_id, run_id))
        if batch:
            await _append(log, thread_id, batch)
            logger.info("ended run %s, left open earlier", run_id)
    except Refused as refused:
        logger.warning("cannot end run %s: %s", run_id, refused)


async def _append(log: ThreadLog, thread_id: str, batch: list[Keyed]) -> None:
    while True:
        try:
            await log.append(thread_id, batch)
        except Unavailable as unavailable:
            await trio.sleep(unavailable.retry_after_s or RETRY_S)
        else:
            return
