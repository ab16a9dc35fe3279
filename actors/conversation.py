"""One conversation, decided: what each message to a thread makes happen. Pure; at most one run.

`Conversation.step` takes a message of the thread's inbox and returns what to send where, in order.
`actors.thread` is the shell that sends it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import assert_never

import msgspec

from actors.drain import Input, InputDrain
from actors.events import (
    Agent,
    ApprovalGiven,
    Draft,
    Event,
    InterruptRequested,
    Notice,
    ResultGiven,
    RunStartedPayload,
    RunStatus,
    Trigger,
)
from actors.harness import AnySaid, Decision, PermissionAsked, Supplied, ToolReturned, TurnEnded
from actors.leftovers import EXPIRED
from actors.messages import (
    Append,
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalRejected,
    ApprovalSettled,
    CaughtUp,
    Close,
    Cut,
    Decide,
    Drain,
    EventsSeen,
    HarnessSaid,
    Interrupt,
    Landed,
    RunEnded,
    RunFetched,
    RunRefused,
    SessionEnded,
    StartTurn,
    ThreadInbox,
    WentBack,
)
from actors.outbound import Outbound
from actors.ports import OpenRun
from actors.recovery import quoted

logger = logging.getLogger(__name__)

MAY_INTERRUPT = ("owner", "member", "approver", None)
"""Roles that may stop a run (3.2); None where the server does not say: it checked."""


class Begin(msgspec.Struct, frozen=True):
    """A run begins: put it on record before anything of it is said."""

    run: OpenRun


class See(msgspec.Struct, frozen=True):
    """Input up to `seq` waits: put it on record, so that it is answered whatever happens."""

    seq: int


class Settle(msgspec.Struct, frozen=True):
    """Everything that was final at or below `seq` is answered: move the checkpoint."""

    seq: int


class Excuse(msgspec.Struct, frozen=True):
    """It was our own stop that cut the run in hand: put on record that this was no try."""


class Fetch(msgspec.Struct, frozen=True):
    """The beginning of this run was never seen: read it, then say `RunFetched`."""

    run_id: str


class GoBack(msgspec.Struct, frozen=True):
    """Leave as you stand, and begin anew where the log ends now."""

    head: int


class Leave(msgspec.Struct, frozen=True):
    """Drained: nothing is in hand any more."""


Effect = (
    Begin
    | GoBack
    | See
    | StartTurn
    | Decide
    | Interrupt
    | Close
    | ApprovalAsked
    | ApprovalAnswered
    | RunEnded
    | Append
    | Settle
    | Excuse
    | Fetch
    | Leave
)


class Run:
    """The run in hand, from `run_started` until its `run_finished` has landed."""

    def __init__(self, run_id: str, prompt_id: str, through_seq: int) -> None:
        self.run_id, self.prompt_id, self.through_seq = run_id, prompt_id, through_seq
        self.outbound = Outbound(run_id)
        self.stopped: str | None = None
        """Why it was asked to stop."""
        self.cut = False
        """It was our own end that stopped it: the next start decides what becomes of it."""
        self.ended = False
        """Its `run_finished` is on the way out."""


class Conversation:
    """What one thread is doing. Owns the drain and the run in hand; no I/O."""

    def __init__(
        self,
        *,
        own_principal_id: str,
        floor: int,
        agent: Agent,
        new_id: Callable[[], str],
        opening: Input | None = None,
        preface: str | None = None,
    ) -> None:
        """`opening` is answered before anything else; `preface` stands before what comes first."""
        self._opening, self._preface = opening, preface
        self._noted_seq = 0
        self._own, self._agent, self._new_id = own_principal_id, agent, new_id
        self._input = InputDrain(own_principal_id, floor)
        self._fetching: set[str] = set()
        self._run: Run | None = None
        self._ready = self._draining = self._closed = False

    @property
    def run_id(self) -> str | None:
        """The run in hand, if there is one."""
        return self._run.run_id if self._run else None

    def step(self, message: ThreadInbox) -> list[Effect]:
        """Take one message; return what follows from it, in order."""
        match message:
            case EventsSeen():
                effects = self._seen(message.events)
            case CaughtUp():
                self._ready, effects = True, []
            case RunFetched():
                self._fetching.discard(message.run_id)
                self._input.fill(message.run_id, message.events)
                effects = []
            case HarnessSaid():
                effects = self._said(message.said)
            case SessionEnded():
                effects = self._session_ended(message)
            case ApprovalSettled():
                effects = self._settled(message)
            case ApprovalRejected():
                run = self._live_run(message.run_id)
                effects = [Append(tuple(run.outbound.notice(message.notice)))] if run else []
            case RunRefused():
                run = self._live_run(message.run_id)
                effects = self._stop(f"the server refuses it ({message.code})") if run else []
            case Landed():
                effects = self._landed(message.run_id)
            case Drain():
                self._draining, effects = True, []
            case Cut():
                self._draining, effects = True, self._cut()
            case WentBack(head=head):
                return [GoBack(head)]
            case _:
                assert_never(message)
        if self._draining and self._run is not None and self._run.outbound.asked:
            effects += self._cut()  # nobody can be waited for now
        effects += self._fetch() + (self._leave() if self._draining else self._next())
        return effects + self._see()

    # --- from the thread -----------------------------------------------------------------------

    def _seen(self, events: Sequence[Event]) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            self._input.observe(event)
            if event.principal_id == self._own:
                continue
            match event.body:
                case InterruptRequested():
                    effects += self._interrupt_requested(event)
                case ApprovalGiven() | ResultGiven() as body:
                    effects += self._answered(event, body)
                case _:
                    pass
        return effects

    def _interrupt_requested(self, event: Event) -> list[Effect]:
        if self._live_run(event.run_id) is None or event.role not in MAY_INTERRUPT:
            logger.debug("interrupt without effect", extra={"seq": event.seq})
            return []
        return self._stop(f"{event.principal_id} asked to stop")

    def _answered(self, event: Event, body: ApprovalGiven | ResultGiven) -> list[Effect]:
        run = self._live_run(event.run_id)
        if run is None:
            logger.debug("answer for a run that is not in hand", extra={"seq": event.seq})
            return []
        return [
            ApprovalAnswered(
                run_id=run.run_id,
                tool_call_id=body.tool_call_id,
                principal_id=event.principal_id,
                role=event.role,
                kind="approval" if isinstance(body, ApprovalGiven) else "result",
                decision=decision_of(event.principal_id, body),
            )
        ]

    def _fetch(self) -> list[Effect]:
        missing = self._input.needs() - self._fetching
        self._fetching |= missing
        return [Fetch(run_id) for run_id in sorted(missing)]

    # --- a run ---------------------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        """Begin the next run if one is due."""
        effects: list[Effect] = []
        while self._run is None and self._ready:
            opening, self._opening = self._opening, None
            past_seq = opening.through_seq if opening else self._input.settled_seq
            taken = opening or self._input.take()
            if taken is None:
                return effects
            effects += self._answer(taken, past_seq, goes_on=opening is not None)
        return effects

    def _leave(self) -> list[Effect]:
        """Leave when drained. The session need not wait for what is still on the way out."""
        effects: list[Effect] = []
        if not self._closed and (self._run is None or self._run.ended):
            self._closed = True
            effects.append(Close())
        if self._run is None:
            effects.append(Leave())
        return effects

    def _answer(self, taken: Input, past_seq: int, *, goes_on: bool) -> list[Effect]:
        """Begin a run on what was said; what was silent is settled without one."""
        if not taken.text:
            return [Settle(taken.through_seq)]
        preface, self._preface = self._preface, None
        text = taken.text if preface is None else quoted(preface, taken.text)
        run = self._run = Run(f"run_{self._new_id()}", self._new_id(), taken.through_seq)
        started = RunStartedPayload(trigger=Trigger(taken.through_seq), agent=self._agent)
        on_record = OpenRun(
            run_id=run.run_id,
            prompt_id=run.prompt_id,
            through_seq=run.through_seq,
            resumes="session" if goes_on else "nothing" if preface is None else "input",
        )
        return [
            Begin(on_record),
            Append((Draft("run_started", run.run_id, started),)),
            StartTurn(
                run_id=run.run_id,
                through_seq=taken.through_seq,
                prompt_id=run.prompt_id,
                text=text,
                past_seq=past_seq,
            ),
        ]

    def _see(self) -> list[Effect]:
        """Put on record what waits, once for each message that joins it."""
        seq = self._input.final_seq
        if seq <= self._noted_seq or not self._input.waiting:
            return []
        self._noted_seq = seq
        return [See(seq)]

    def _cut(self) -> list[Effect]:
        run = self._run
        effects = self._stop("scuba is being stopped")
        if not effects or run is None:
            return []
        run.cut = True
        if run.outbound.asked:
            effects.append(Append(tuple(run.outbound.notice(EXPIRED))))
        return effects

    def _stop(self, why: str) -> list[Effect]:
        run = self._run
        if run is None or run.ended or run.stopped is not None:
            return []
        run.stopped = why
        return [RunEnded(run.run_id), Interrupt(run.prompt_id)]

    def _finish(self, run: Run, status: RunStatus, reason: str | None) -> list[Effect]:
        run.ended = True
        if run.cut and status == "completed":
            run.cut = False  # it came to its end all the same
        elif run.stopped is not None:
            status, reason = "interrupted", run.stopped
        drafts = run.outbound.finish(status, reason, run.through_seq)
        return [Append(tuple(drafts)), RunEnded(run.run_id)]

    def _fail(self, run: Run, code: str | None, text: str | None) -> list[Effect]:
        """End a run that went wrong, and say why where people see it."""
        if run.stopped is not None:
            return self._finish(run, "interrupted", None)
        why = text or "The agent stopped unexpectedly. Send a message to try again."
        notice = run.outbound.notice(Notice("error", code or "agent_failed", why))
        return [Append(tuple(notice)), *self._finish(run, "failed", why)]

    def _landed(self, run_id: str) -> list[Effect]:
        run = self._run
        if run is None or run.run_id != run_id:
            return []
        self._run = None
        return [Excuse() if run.cut else Settle(run.through_seq)]

    def _live_run(self, run_id: str | None) -> Run | None:
        run = self._run
        return run if run is not None and run.run_id == run_id and not run.ended else None

    # --- from the harness ----------------------------------------------------------------------

    def _said(self, said: Sequence[AnySaid]) -> list[Effect]:
        run = self._run
        if run is None or run.ended:
            logger.debug("%d words of the agent outside any run", len(said))
            return []
        ended = next((i for i, item in enumerate(said) if _ends(item, run)), None)
        effects = self._translate(run, said[:ended])
        if ended is not None:
            last = said[ended]
            assert isinstance(last, TurnEnded)
            if last.status == "failed":
                effects += self._fail(run, last.code, last.text)
            else:
                effects += self._finish(run, last.status, last.text)
        return effects

    def _translate(self, run: Run, said: Sequence[AnySaid]) -> list[Effect]:
        if run.stopped is not None:
            said = [item for item in said if not _is_echo_of_a_stop(item)]
        drafts = run.outbound.translate(said)
        effects: list[Effect] = [Append(tuple(drafts))] if drafts else []
        if run.stopped is None:
            effects += [
                ApprovalAsked(run_id=run.run_id, tool_call_id=item.tool_call_id)
                for item in said
                if isinstance(item, PermissionAsked)
            ]
        return effects

    def _session_ended(self, message: SessionEnded) -> list[Effect]:
        run = self._run
        if run is None or run.ended or message.prompt_id != run.prompt_id:
            return []
        return self._fail(run, message.code, message.text)

    def _settled(self, message: ApprovalSettled) -> list[Effect]:
        run = self._live_run(message.run_id)
        if run is None or run.stopped is not None:
            return []
        call, decision, effects = message.tool_call_id, message.decision, list[Effect]()
        if decision.supplied is not None:
            given = decision.supplied
            drafts = run.outbound.answered_elsewhere(call, given.output, given.is_error)
            effects.append(Append(tuple(drafts)))
        elif not (decision.allowed or decision.expired):
            run.outbound.denied(call)
        return [*effects, Decide(tool_call_id=call, decision=decision)]


def _ends(item: AnySaid, run: Run) -> bool:
    return isinstance(item, TurnEnded) and item.prompt_id == run.prompt_id


def _is_echo_of_a_stop(item: AnySaid) -> bool:
    """Tell whether a call failed because it was stopped: what a harness tells the model of it.

    People read at the end of the run that it was interrupted (field case 4.3).
    """
    return isinstance(item, ToolReturned) and item.is_error


def decision_of(principal_id: str, body: ApprovalGiven | ResultGiven) -> Decision:
    """Return what an answer on the thread means to the harness.

    A supplied result travels as a denial, because the call must not run here as well.
    """
    if isinstance(body, ResultGiven):
        text = body.output if isinstance(body.output, str) else _json(body.output)
        return Decision(
            allowed=False,
            message=f"The call was not run here. {principal_id} gave its result: {text}",
            supplied=Supplied(body.output, body.is_error),
        )
    if body.decision == "allow":
        return Decision(allowed=True, updated_input=body.updated_input)
    return Decision(allowed=False, message=body.reason or "")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
