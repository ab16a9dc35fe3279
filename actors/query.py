"""QueryActor: gives a thread's turns to its harness session, and stops them.

Its receiving task only starts things, so an interrupt is heard whatever ThreadActor is doing.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf

import trio

from actors import history
from actors.enclosing import Fetch, enclose
from actors.harness import Told, TurnEnded
from actors.history import History
from actors.messages import (
    Close,
    Decide,
    HarnessSaid,
    Interrupt,
    QueryInbox,
    SessionEnded,
    StartTurn,
    StopAside,
    ThreadInbox,
)
from actors.places import Place
from actors.ports import Harness, Journal, SessionFailed
from actors.session import Live, ThreadSession
from actors.spending import Spending
from actors.turn import Teller, Turn

logger = logging.getLogger(__name__)

GOODBYE_S = 1.0
"""Longest time the actor holds up its own end to say that the turn is lost."""
LOST_TURN = "Something went wrong inside scuba. Send the message again."
LOST_AT_WORK = (
    "The agent came back without the earlier conversation and began to work all the same. It was "
    "stopped; look at what it has done, then send the message again."
)
KNOWS = "It knows the last messages of this thread."
KNOWS_NOTHING = "It remembers nothing of what was said before."

Recall = Callable[[int], Awaitable[History]]
"""Returns what was said on the thread, of others what was final up to a seq."""


class QueryActor:
    """Owns the turn in hand and the session; closes both channel ends when it leaves."""

    def __init__(
        self,
        thread_id: str,
        own_principal_id: str,
        inbox: trio.MemoryReceiveChannel[QueryInbox],
        outbox: trio.MemorySendChannel[ThreadInbox],
        harness: Harness,
        journal: Journal,
        recall: Recall,
        fetch: Fetch,
        *,
        place: Place,
        cooperative_s: float = 10.0,
        drain_s: float = 8.0,
        idle_s: float = 600.0,
        budget_usd: float = inf,
        shows_usage: bool = False,
    ) -> None:
        self._thread_id, self._own = thread_id, own_principal_id
        self._inbox, self._outbox = inbox, outbox
        self._harness, self._recall, self._fetch = harness, recall, fetch
        self._cooperative_s, self._drain_s = cooperative_s, drain_s
        self._teller = Teller(outbox)
        self._spending = Spending(thread_id, journal, budget_usd=budget_usd, is_shown=shows_usage)
        self._session = ThreadSession(
            thread_id,
            harness,
            journal,
            place,
            self._teller,
            self._lost,
            self._spending,
            idle_s=idle_s,
        )
        self._turn: Turn | None = None
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until told to close, or cancelled; the session's processes are gone then."""
        async with self._inbox, self._outbox:
            task_status.started()
            try:
                async with trio.open_nursery() as self._nursery:
                    await self._serve()
                    self._nursery.cancel_scope.cancel()
            finally:
                # Cancelled or crashed, ThreadActor still waits for the end of the turn.
                with trio.move_on_after(GOODBYE_S, shield=True):
                    with suppress(trio.BrokenResourceError):  # nobody is left to be told
                        lost = SessionEnded(code="agent_failed", text=LOST_TURN)
                        if self._turn is not None:
                            await self._teller.goodbye(self._turn, lost)
                        if self._session.is_beside:
                            await self._teller.gone()

    async def _serve(self) -> None:
        async for message in self._inbox:
            match message:
                case StartTurn():
                    self._turn = Turn.asked_for(message)
                    self._nursery.start_soon(self._start, self._turn)
                case Decide():
                    if not self._session.decide(message.tool_call_id, message.decision):
                        logger.debug("decision for a call that does not wait", extra=self._ids())
                case Interrupt():
                    self._nursery.start_soon(self._interrupt, message.prompt_id)
                case StopAside():
                    self._nursery.start_soon(self._stop_aside, message.tool_call_id)
                case Close():
                    return

    # --- beginning a turn ----------------------------------------------------------------------

    async def _start(self, turn: Turn) -> None:
        """Give the harness the prompt, opening a session if there is none."""
        if over := self._spending.over:
            await self._teller.session_over(turn, over)
            return
        failure: SessionFailed | None = None
        with turn.opening:
            try:
                enclosed = await enclose(turn.files, self._fetch)
                live = await self._session.working(self._nursery, turn)
                text = await self._whole_text(live, turn, enclosed.noted(turn.text))
                if not (turn.opening.cancel_called or turn.ended.is_set()):
                    live.turn, turn.prompted, live.needs_history = turn, True, False
                    await live.session.prompt(turn.prompt_id, text, enclosed.attachments)
            except SessionFailed as failed:
                failure = failed
        if turn.ended.is_set():
            return
        if failure is not None:
            await self._teller.session_over(turn, self._session.failed(failure))
        elif not turn.prompted:
            self._session.rest()
            ended = TurnEnded(prompt_id=turn.prompt_id, status="interrupted")
            await self._teller.end(turn, HarnessSaid((ended,)))

    async def _whole_text(self, live: Live, turn: Turn, text: str) -> str:
        """Return the prompt; to a session that lost its memory, with what the thread remembers."""
        if not live.needs_history:
            return text
        past = await self._recall(turn.past_seq)
        if not self._session.is_told:
            await self._teller.say(_begins_anew(past))
            self._session.is_told = True
        return history.told(past, self._own, text)

    def _lost(self, turn: Turn) -> None:
        turn.begin_anew()
        self._nursery.start_soon(self._ask_anew, turn)

    async def _ask_anew(self, turn: Turn) -> None:
        """Give the prompt to a new session, unless the one that was not asked for worked on it."""
        shown = await self._harness.evidence(self._thread_id, None, turn.prompt_id)
        if shown.tools:
            ended = SessionEnded(code="session_lost", text=LOST_AT_WORK)
            await self._teller.session_over(turn, ended)
        else:
            await self._start(turn)

    # --- stopping it ---------------------------------------------------------------------------

    async def _interrupt(self, prompt_id: str) -> None:
        """Stop a turn: before it began at once, else by asking, else by closing the session."""
        live = self._session.live
        turn = self._session.woken(prompt_id) or self._turn
        if turn is None or turn.prompt_id != prompt_id:
            await self._teller.not_in_hand(prompt_id)
            return
        if turn.ended.is_set():
            return
        turn.stopped = True
        if not turn.prompted or live is None:
            turn.opening.cancel()
            return
        with trio.move_on_after(self._cooperative_s):
            with suppress(SessionFailed):  # it is ending by itself, and says so
                await live.session.interrupt(prompt_id)
            await turn.ended.wait()
        if not turn.ended.is_set():
            logger.warning("interrupt not obeyed, closing the session", extra=self._ids())
            live.scope.cancel()
            with trio.move_on_after(self._drain_s):
                await turn.ended.wait()
        if not turn.ended.is_set():
            await self._teller.session_over(turn, SessionEnded())

    async def _stop_aside(self, tool_call_id: str) -> None:
        if (live := self._session.live) is not None:
            with trio.move_on_after(self._cooperative_s), suppress(SessionFailed):
                await live.session.stop_aside(tool_call_id)

    def _ids(self) -> dict[str, str]:
        return {"thread_id": self._thread_id}


def _begins_anew(past: History) -> Told:
    knows = KNOWS if past.messages else KNOWS_NOTHING
    text = f"The earlier conversation with the agent is lost, and a new one begins. {knows}"
    return Told(level="warning", code="session_lost", text=text)
