"""The one harness session of a thread: opened, resumed or begun anew, read, and closed.

Opened by a turn when there is a place for it; closed when it rested for long, or must make room.
What it says leaves from its own task, whatever its owner is doing.
"""

import logging
from collections.abc import Callable
from functools import partial
from math import inf

import trio

from actors.harness import (
    AnySaid,
    AsideSaid,
    Decision,
    PermissionAsked,
    TasksRunning,
    Told,
    TurnEnded,
    Woke,
)
from actors.health import GIVEN_UP, Health
from actors.messages import HarnessSaid, SessionEnded
from actors.places import Place
from actors.ports import Harness, HarnessSession, Journal, SessionFailed
from actors.spending import Spending
from actors.turn import Teller, Turn

logger = logging.getLogger(__name__)

WAITING_S = 1.0
"""A wait for a place that is longer than this is told on the thread."""


class Live:
    """A session that is open, with the scope that keeps it so and the newest turn given to it."""

    def __init__(
        self, session: HarnessSession, scope: trio.CancelScope, turn: Turn, resumed: str | None
    ) -> None:
        self.session, self.scope, self.turn = session, scope, turn
        self.resumed = resumed
        self.woken: Turn | None = None
        """The turn that the harness began by itself, until that is over."""
        self.tasks = 0
        """Background tasks that run."""
        self.needs_history = False
        """Whether it takes the place of one that is lost, and was not told what that knew."""


class ThreadSession:
    """Owns at most one session, in a task of `nursery`; never opens one before the last is gone.

    `lost` is called with a turn that a session had which was not the one asked for.
    """

    def __init__(
        self,
        thread_id: str,
        harness: Harness,
        journal: Journal,
        place: Place,
        teller: Teller,
        lost: Callable[[Turn], None],
        spending: Spending,
        *,
        idle_s: float,
    ) -> None:
        self._thread_id, self._harness, self._journal = thread_id, harness, journal
        self._place, self._teller, self._lost, self._idle_s = place, teller, lost, idle_s
        self._spending = spending
        self._health = Health()
        self._asked: set[str] = set()
        self._resting = trio.CancelScope()
        self.live: Live | None = None
        self.is_beside = False
        """Whether a session began something, ever, beside the turns that it was given."""
        self.is_told = False
        """Whether the thread knows already that the conversation before was given up."""
        self._gone = trio.Event()
        self._gone.set()

    def decide(self, tool_call_id: str, decision: Decision) -> bool:
        """Answer a permission; False (and no effect) when it is not waiting."""
        self._asked.discard(tool_call_id)
        if not self._asked:
            self._place.unpark()
        return self.live is not None and self.live.session.decide(tool_call_id, decision)

    def woken(self, prompt_id: str) -> Turn | None:
        """Return the turn that the harness began by itself under this id, if it is in that."""
        woken = self.live.woken if self.live else None
        return woken if woken is not None and woken.prompt_id == prompt_id else None

    def rest(self) -> None:
        """The turn is over, or never began: whoever waits may work, or have the process.

        While background tasks run, the process is kept.
        """
        self._asked.clear()
        if self.live is None or self.live.woken is not None:
            return
        if self.live.tasks:
            self._place.park()
        else:
            self._place.rest(partial(self._make_room, self.live))
            self._resting.deadline = trio.current_time() + self._idle_s

    async def working(self, nursery: trio.Nursery, turn: Turn) -> Live:
        """Return a live session once it may work. Raises SessionFailed.

        The one before it is gone first: two processes on one session would fork its history.
        """
        try:
            while self.live is None or self._place.state != "works":
                if self.live is None:
                    await self._gone.wait()
                await self._admitted()
                if self.live is None and self._gone.is_set():
                    return await self._open(nursery, turn)
            return self.live
        finally:
            # A place that was given just before all of this was cancelled is nobody's.
            if self.live is None and self._gone.is_set():
                self._place.leave()

    def failed(self, failed: SessionFailed) -> SessionEnded:
        """Count and log a failure; return how it is told."""
        self._health.died()
        detail = failed.detail or failed.text
        logger.error("session failed: %s: %s", failed.code, detail, extra=self._ids())
        return SessionEnded(code=failed.code, text=failed.text)

    # --- opening -------------------------------------------------------------------------------

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
        await self._teller.say(Told(level="info", code="waiting", text=text))

    async def _open(self, nursery: trio.Nursery, turn: Turn) -> Live:
        """Return a live session, resumed if there is one to resume. Raises SessionFailed."""
        if wait_s := self._health.wait_s:
            await trio.sleep(wait_s)
        resume = self._journal.session_id(self._thread_id)
        name = f"session {self._thread_id}"
        opened = await nursery.start(self._hold, resume, turn, name=name)
        if isinstance(opened, SessionFailed) and opened.lost_session and resume is not None:
            await self._retire(resume, opened.detail or opened.text)
            opened = await nursery.start(self._hold, None, turn, name=name)
        if isinstance(opened, SessionFailed):
            raise opened
        live: Live = opened
        return live

    async def _retire(self, session_id: str, why: str) -> None:
        logger.warning("session %s is not resumed again: %s", session_id, why, extra=self._ids())
        self._health.begun_anew()
        self.is_told = False
        await self._journal.retire_session(self._thread_id, session_id, why)

    async def _hold(
        self, resume: str | None, turn: Turn, *, task_status: trio.TaskStatus[Live | SessionFailed]
    ) -> None:
        """Open, read and close one session in one task; report its start, or why there is none."""
        live: Live | None = None
        failure: SessionFailed | None = None
        self._gone = trio.Event()
        with trio.CancelScope() as scope:
            try:
                left_usd = self._spending.left_usd
                opened = self._harness.open(self._thread_id, resume, budget_usd=left_usd)
                async with opened as session:
                    live = self.live = Live(session, scope, turn, resume)
                    live.needs_history = self._journal.has_retired(self._thread_id)
                    task_status.started(live)
                    await self._relay(live)
            except SessionFailed as failed:
                failure = failed
            finally:
                self.live = None
                if live is not None:  # else another one is tried in this place
                    self._place.leave()
                self._gone.set()
        if live is not None:
            await self._over(live, failure)
        elif failure is not None:
            task_status.started(failure)

    async def _over(self, live: Live, failure: SessionFailed | None) -> None:
        """Say that an open session has ended; if it was another one's, its turn is asked anew."""
        if failure is not None and failure.lost_session and live.resumed is not None:
            await self._retire(live.resumed, failure.detail or failure.text)
            if not live.turn.ended.is_set():
                self._lost(live.turn)
            return
        ended = SessionEnded() if failure is None else self.failed(failure)
        await self._teller.session_over(live.turn, ended)

    # --- reading -------------------------------------------------------------------------------

    async def _relay(self, live: Live) -> None:
        """Pass on what the session says, until it ends, is given up, or has rested long enough.

        Raises SessionFailed when it ended by itself.
        """
        session, remembered = live.session, None
        try:
            while (heard := await self._heard(live)) is not None:
                if closes := _closes(live.turn, heard):
                    self.live = None  # before anybody can have the next turn begin on it
                said = await self._spending.count(heard)
                if self._is_given_up(live, said):
                    await self._give_up(live, said)
                    return
                await self._pass_on(live, HarnessSaid(said))
                if session.session_id != remembered:
                    remembered = session.session_id
                    await self._journal.remember_session(self._thread_id, remembered)
                if closes:
                    return
        finally:
            self.live = None  # closing takes a while, and no turn may begin on it

    async def _heard(self, live: Live) -> tuple[AnySaid, ...] | None:
        """Return what the session says next; None when it is to rest no longer."""
        while True:
            rests = self._place.state == "rests"
            self._resting = trio.move_on_after(self._idle_s if rests else inf)
            with self._resting:
                return tuple(await live.session.receive())
            if self._place.state == "rests" and live.turn.ended.is_set():
                logger.info("session hibernates", extra=self._ids())
                return None

    def _is_given_up(self, live: Live, said: tuple[AnySaid, ...]) -> bool:
        resumed = live.resumed is not None
        ends = (item for item in said if isinstance(item, TurnEnded))
        return any(self._health.ended(end, resumed=resumed) for end in ends)

    async def _give_up(self, live: Live, said: tuple[AnySaid, ...]) -> None:
        """Say with the end of the turn that this was the last one of its session."""
        ended = next(item for item in said if isinstance(item, TurnEnded))
        await self._retire(live.session.session_id, f"failed alike again: {ended.code}")
        self.is_told = True
        self.live = None  # before anybody is told that the next turn may begin
        await self._pass_on(live, HarnessSaid((GIVEN_UP, *said)))

    async def _pass_on(self, live: Live, message: HarnessSaid) -> None:
        turn = live.turn
        self._follow(live, message)
        ended = {item.prompt_id for item in message.said if isinstance(item, TurnEnded)}
        if turn.prompt_id in ended:
            self.rest()
            await self._teller.end(turn, message)
            return
        if turn.ended.is_set() and not live.woken and (ended or not live.tasks):
            self.rest()
        else:
            self._count(message)
        await self._teller.say(*message.said)

    def _follow(self, live: Live, message: HarnessSaid) -> None:
        """Know what the session does beside the turn that it was given."""
        for item in message.said:
            match item:
                case TasksRunning(count=count):
                    live.tasks, self.is_beside = count, True
                case Woke(prompt_id=prompt_id):
                    live.woken, self.is_beside = Turn.woken(prompt_id), True
                    self._place.wake()
                case TurnEnded(prompt_id=prompt_id):
                    if live.woken is not None and live.woken.prompt_id == prompt_id:
                        live.woken.ended.set()
                        live.woken = None
                case _:
                    pass

    def _count(self, message: HarnessSaid) -> None:
        """Tell the places whether the session works, or only waits for a person."""
        words = [
            item.said if isinstance(item, AsideSaid) else item
            for item in message.said
            if not isinstance(item, TasksRunning)
        ]
        if not words:
            return
        asks = {item.tool_call_id for item in words if isinstance(item, PermissionAsked)}
        if len(asks) < len(words):
            self._asked.clear()  # it went on, whatever it asked before
        self._asked |= asks
        if self._asked:
            self._place.park()
        else:
            self._place.unpark()

    def _make_room(self, live: Live) -> None:
        logger.info("session makes room for another", extra=self._ids())
        if self.live is live:
            self.live = None
        live.scope.cancel()

    def _ids(self) -> dict[str, str]:
        return {"thread_id": self._thread_id}


def _closes(turn: Turn, said: tuple[AnySaid, ...]) -> bool:
    """Return whether the session takes no further turn, and has none in hand."""
    ends = [item for item in said if isinstance(item, TurnEnded)]
    is_over = turn.ended.is_set() or turn.prompt_id in {ended.prompt_id for ended in ends}
    return is_over and any(ended.closes for ended in ends)
