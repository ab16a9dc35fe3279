"""QueryActor: owns at most one harness session of its thread, kept from turn to turn.

Opened by a turn when there is a place for it; closed when it rested for long, or must make room.

Its receiving task only starts things. What the session says leaves from the session's own task, so
an interrupt is heard whatever ThreadActor is doing.
"""

import logging
from contextlib import suppress
from functools import partial
from math import inf

import msgspec
import trio

from actors.harness import AnySaid, PermissionAsked, Told, TurnEnded
from actors.messages import (
    Close,
    Decide,
    HarnessSaid,
    Interrupt,
    QueryInbox,
    SessionEnded,
    StartTurn,
    ThreadInbox,
)
from actors.places import Place
from actors.ports import Harness, HarnessSession, Journal, SessionFailed

logger = logging.getLogger(__name__)

BACKOFF_S, BACKOFF_CAP_S = 0.5, 30.0
"""Between sessions that died without finishing a turn."""
WAITING_S = 1.0
"""A wait for a place that is longer than this is told on the thread."""
GOODBYE_S = 1.0
"""Longest time the actor holds up its own end to say that the turn is lost."""
LOST_TURN = "Something went wrong inside scuba. Send the message again."
SESSION_LOST = Told(
    level="warning",
    code="session_lost",
    text="The earlier conversation with the agent could not be resumed. It begins anew and "
    "remembers nothing of what was said before.",
)


class Turn:
    """The turn in hand: where it is, and how to stop it."""

    def __init__(self, prompt_id: str) -> None:
        self.prompt_id = prompt_id
        self.ended = trio.Event()
        self.opening = trio.CancelScope()
        """Covers everything until the harness has the prompt."""
        self.prompted = False
        """Whether the harness may have it, so that only an interrupt of the harness stops it."""
        self.last_word: HarnessSaid | SessionEnded | None = None
        """What tells its end, until that has left."""


class Live:
    """A session that is open, with the scope that keeps it so and the newest turn given to it."""

    def __init__(self, session: HarnessSession, scope: trio.CancelScope, turn: Turn) -> None:
        self.session, self.scope, self.turn = session, scope, turn


class QueryActor:
    """Owns the session and its scope; closes the session and both channel ends when it leaves."""

    def __init__(
        self,
        thread_id: str,
        inbox: trio.MemoryReceiveChannel[QueryInbox],
        outbox: trio.MemorySendChannel[ThreadInbox],
        harness: Harness,
        journal: Journal,
        *,
        place: Place,
        cooperative_s: float = 10.0,
        drain_s: float = 8.0,
        idle_s: float = 600.0,
    ) -> None:
        self._thread_id, self._inbox, self._outbox = thread_id, inbox, outbox
        self._harness, self._journal, self._place = harness, journal, place
        self._cooperative_s, self._drain_s, self._idle_s = cooperative_s, drain_s, idle_s
        self._asked: set[str] = set()
        self._live: Live | None = None
        self._turn: Turn | None = None
        self._gone = trio.Event()
        self._gone.set()
        self._deaths = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until told to close, or cancelled; the session's processes are gone then."""
        async with self._inbox, self._outbox:
            task_status.started()
            try:
                async with trio.open_nursery() as nursery:
                    await self._serve(nursery)
                    nursery.cancel_scope.cancel()
            finally:
                # Cancelled or crashed, ThreadActor still waits for the end of the turn.
                with trio.move_on_after(GOODBYE_S, shield=True):
                    with suppress(trio.BrokenResourceError):  # nobody is left to be told
                        await self._goodbye()

    async def _serve(self, nursery: trio.Nursery) -> None:
        async for message in self._inbox:
            match message:
                case StartTurn():
                    self._turn = Turn(message.prompt_id)
                    nursery.start_soon(self._start, nursery, self._turn, message.text)
                case Decide():
                    self._decide(message)
                case Interrupt():
                    nursery.start_soon(self._interrupt, message.prompt_id)
                case Close():
                    return

    async def _goodbye(self) -> None:
        turn = self._turn
        if turn is None:
            return
        if not turn.ended.is_set():
            await self._end_turn(turn, SessionEnded(code="agent_failed", text=LOST_TURN))
        elif turn.last_word is not None:
            await self._tell_end(turn, turn.last_word)

    def _decide(self, message: Decide) -> None:
        self._asked.discard(message.tool_call_id)
        if not self._asked:
            self._place.unpark()
        if not (self._live and self._live.session.decide(message.tool_call_id, message.decision)):
            logger.debug("decision for a call that does not wait", extra=self._ids())

    # --- a turn --------------------------------------------------------------------------------

    async def _start(self, nursery: trio.Nursery, turn: Turn, text: str) -> None:
        """Give the harness the prompt, opening a session if there is none."""
        failure: SessionFailed | None = None
        with turn.opening:
            try:
                live = await self._working(nursery, turn)
                if not turn.opening.cancel_called:
                    live.turn, turn.prompted = turn, True
                    await live.session.prompt(turn.prompt_id, text)
            except SessionFailed as failed:
                failure = failed
        if turn.ended.is_set():
            return
        if failure is not None:
            await self._end_turn(turn, self._failed(failure))
        elif not turn.prompted:
            ended = TurnEnded(prompt_id=turn.prompt_id, status="interrupted")
            await self._tell_end(turn, HarnessSaid((ended,)))

    async def _interrupt(self, prompt_id: str) -> None:
        """Stop a turn: before it began at once, else by asking, else by closing the session."""
        turn, live = self._turn, self._live
        if turn is None or turn.prompt_id != prompt_id:
            await self._outbox.send(SessionEnded(prompt_id=prompt_id))  # of an earlier life
            return
        if turn.ended.is_set():
            return
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
            await self._end_turn(turn, SessionEnded())

    # --- the session ---------------------------------------------------------------------------

    async def _working(self, nursery: trio.Nursery, turn: Turn) -> Live:
        """Return a live session once it may work. Raises SessionFailed.

        The one before it is gone first: two processes on one session would fork its history.
        """
        while self._live is None or self._place.state != "works":
            if self._live is None:
                await self._gone.wait()
            await self._admitted()
            if self._live is None and self._gone.is_set():
                try:
                    return await self._open(nursery, turn)
                finally:
                    if self._live is None:
                        self._place.leave()
        return self._live

    async def _admitted(self) -> None:
        if self._place.try_work():
            return
        async with trio.open_nursery() as telling:
            telling.start_soon(self._tell_waiting)
            await self._place.work()
            telling.cancel_scope.cancel()

    async def _tell_waiting(self) -> None:
        await trio.sleep(WAITING_S)
        text = f"All places are taken; {self._place.before} wait before this one."
        await self._outbox.send(HarnessSaid((Told(level="info", code="waiting", text=text),)))

    async def _open(self, nursery: trio.Nursery, turn: Turn) -> Live:
        """Return a live session, resumed if there is one to resume. Raises SessionFailed."""
        if self._deaths > 1:
            await trio.sleep(min(BACKOFF_S * 2 ** (self._deaths - 2), BACKOFF_CAP_S))
        resume = self._journal.session_id(self._thread_id)
        name = f"session {self._thread_id}"
        opened = await nursery.start(self._hold, resume, turn, name=name)
        if isinstance(opened, SessionFailed) and opened.lost_session and resume is not None:
            logger.warning("session cannot be resumed: %s", opened.detail, extra=self._ids())
            await self._journal.remember_session(self._thread_id, None)
            await self._outbox.send(HarnessSaid((SESSION_LOST,)))
            opened = await nursery.start(self._hold, None, turn, name=name)
        if isinstance(opened, SessionFailed):
            raise opened
        live: Live = opened
        return live

    async def _hold(
        self, resume: str | None, turn: Turn, *, task_status: trio.TaskStatus[Live | SessionFailed]
    ) -> None:
        """Open, read and close one session in one task; report its start, or why there is none."""
        live: Live | None = None
        failure: SessionFailed | None = None
        self._gone = trio.Event()
        with trio.CancelScope() as scope:
            try:
                async with self._harness.open(self._thread_id, resume) as session:
                    live = self._live = Live(session, scope, turn)
                    task_status.started(live)
                    await self._relay(live)
            except SessionFailed as failed:
                failure = failed
            finally:
                self._live = None
                self._place.leave()
                self._gone.set()
        if live is not None:
            ended = self._failed(failure) if failure else SessionEnded()
            await self._end_turn(live.turn, ended)
        elif failure is not None:
            task_status.started(failure)

    async def _relay(self, live: Live) -> None:
        """Pass on what the session says, until it ends or has rested long enough.

        Raises SessionFailed when it ended by itself.
        """
        session, remembered = live.session, None
        try:
            while (said := await self._heard(live)) is not None:
                message = HarnessSaid(said)
                turn = self._ended_by(message)
                self._count(live, message, turn)
                if turn is None:
                    await self._outbox.send(message)
                else:
                    await self._tell_end(turn, message)
                if session.session_id != remembered:
                    remembered = session.session_id
                    await self._journal.remember_session(self._thread_id, remembered)
        finally:
            self._live = None  # closing takes a while, and no turn may begin on it

    async def _heard(self, live: Live) -> tuple[AnySaid, ...] | None:
        """Return what the session says next; None when it is to rest no longer."""
        while True:
            with trio.move_on_after(self._idle_s if self._place.state == "rests" else inf):
                return tuple(await live.session.receive())
            if self._place.state == "rests" and live.turn.ended.is_set():
                logger.info("session hibernates", extra=self._ids())
                return None

    def _count(self, live: Live, message: HarnessSaid, ended: Turn | None) -> None:
        """Tell the places what the session does: it works, waits for a person, or rests."""
        if ended is not None:
            self._asked.clear()
            self._place.rest(partial(self._make_room, live))
            return
        asks = {item.tool_call_id for item in message.said if isinstance(item, PermissionAsked)}
        if len(asks) < len(message.said):
            self._asked.clear()  # it went on, whatever it asked before
        self._asked |= asks
        if self._asked:
            self._place.park()
        else:
            self._place.unpark()

    def _make_room(self, live: Live) -> None:
        logger.info("session makes room for another", extra=self._ids())
        if self._live is live:
            self._live = None
        live.scope.cancel()

    def _ended_by(self, message: HarnessSaid) -> Turn | None:
        """Return the turn in hand if a message has the harness's last word about it."""
        ended = {item.prompt_id for item in message.said if isinstance(item, TurnEnded)}
        if ended:
            self._deaths = 0
        return self._turn if self._turn and self._turn.prompt_id in ended else None

    async def _end_turn(self, turn: Turn, ended: SessionEnded) -> None:
        """Say that the session is gone, and with it its turn, if that is not over."""
        if turn.ended.is_set():
            await self._outbox.send(ended)
        else:
            await self._tell_end(turn, msgspec.structs.replace(ended, prompt_id=turn.prompt_id))

    async def _tell_end(self, turn: Turn, last_word: HarnessSaid | SessionEnded) -> None:
        turn.ended.set()
        turn.last_word = last_word
        await self._outbox.send(last_word)  # cancelled here, it is left to `_goodbye`
        turn.last_word = None

    def _failed(self, failed: SessionFailed) -> SessionEnded:
        self._deaths += 1
        detail = failed.detail or failed.text
        logger.error("session failed: %s: %s", failed.code, detail, extra=self._ids())
        return SessionEnded(code=failed.code, text=failed.text)

    def _ids(self) -> dict[str, str]:
        return {"thread_id": self._thread_id}
