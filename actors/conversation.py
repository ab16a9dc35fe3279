"""One conversation, decided: what each message to a thread makes happen. Pure.

At most one run answers a prompt; beside it the agent may answer a task, and sub-agents work.

`Conversation.step` takes a message of the thread's inbox and returns what to send where, in order.
`actors.thread` is the shell that sends it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import assert_never

import msgspec

from actors.attention import Attention, Heard, InputRules
from actors.beside import Beside
from actors.census import Census
from actors.drain import InputDrain
from actors.effects import (
    Begin,
    Effect,
    Excuse,
    Fetch,
    Forward,
    GoBack,
    Leave,
    LookBack,
    LookUp,
    See,
    Settle,
)
from actors.events import (
    Agent,
    ApprovalGiven,
    Event,
    InterruptRequested,
    Notice,
    ResultGiven,
    Trigger,
)
from actors.harness import (
    AnySaid,
    AsideBegan,
    AsideEnded,
    AsideSaid,
    Decision,
    Spoken,
    Supplied,
    TasksRunning,
    TurnEnded,
    Woke,
)
from actors.leftovers import EXPIRED
from actors.messages import (
    ApprovalAnswered,
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
    NotInHand,
    Opened,
    PastRead,
    PeopleFound,
    RunControl,
    RunEnded,
    RunFetched,
    RunRefused,
    SessionEnded,
    StartTurn,
    StopAside,
    ThreadInbox,
    WentBack,
)
from actors.past import past_of
from actors.ports import OpenRun
from actors.prompt import Prompt, compose, files_of
from actors.recovery import quoted
from actors.runs import Aside, MainRun, Run

logger = logging.getLogger(__name__)

STOPPING = "scuba is being stopped"
MAY_INTERRUPT = ("owner", "member", "approver", None)
"""Roles that may stop a run (3.2); None where the server does not say: it checked."""


class Conversation:
    """What one thread is doing. Owns the drain and the runs in hand; no I/O."""

    def __init__(
        self,
        *,
        own_principal_id: str,
        floor: int,
        agent: Agent,
        new_id: Callable[[], str],
        rules: InputRules = InputRules(),  # noqa: B008  # frozen
        opening: Prompt | None = None,
        preface: str | None = None,
    ) -> None:
        """`opening` is answered before anything else; `preface` stands before what comes first."""
        self._opening, self._preface = opening, preface
        self._noted_seq = 0
        self._own, self._agent, self._new_id = own_principal_id, agent, new_id
        self._input = InputDrain(own_principal_id, floor)
        self._fetching: set[str] = set()
        self._rules, self._attention = rules, Attention(rules, own_principal_id)
        self._inquiry: LookUp | LookBack | None = None
        self._run: MainRun | None = None
        self._beside = Beside(agent, self._new_run_id)
        self._ready = self._draining = self._closed = False

    @property
    def run_id(self) -> str | None:
        """The run in hand, if there is one."""
        return self._run.run_id if self._run else None

    def statistics(self) -> Census:
        """Return what is held of the thread."""
        runs = (self._run is not None) + len(self._beside)
        return Census(runs=runs, messages=len(self._input))

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
            case PeopleFound():
                asked = self._inquiry.principal_ids if isinstance(self._inquiry, LookUp) else ()
                self._attention.learn(message.people, asked)
                self._inquiry, effects = None, []
            case PastRead():
                past = past_of(message.events, self._own, self._input.settled_seq)
                self._attention.recollect(past)
                self._inquiry, effects = None, []
            case HarnessSaid():
                effects = self._said(message.said)
            case SessionEnded():
                effects = self._session_ended(message)
            case NotInHand(prompt_id=prompt_id):
                effects = self._turn_ended(TurnEnded(prompt_id=prompt_id, status="interrupted"))
            case ApprovalSettled():
                effects = self._settled(message)
            case ApprovalRejected():
                run = self._live_run(message.run_id)
                effects = run.notice(message.notice) if run else []
            case RunRefused():
                effects = self._refused(message)
            case Landed():
                effects = self._landed(message.run_id)
            case Opened():
                effects = self._beside.opened(message)
            case RunControl():
                effects = self._heed(message.event, here=False)
            case Drain():
                self._draining, effects = True, []
            case Cut():
                self._draining, effects = True, self._cut()
            case WentBack(head=head):
                return [GoBack(head)]
            case _:
                assert_never(message)
        if self._draining and self._waits():
            effects += self._cut()  # nobody can be waited for now
        effects += self._fetch() + (self._leave() if self._draining else self._next())
        return effects + self._see()

    # --- from the thread -----------------------------------------------------------------------

    def _seen(self, events: Sequence[Event]) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            self._input.observe(event)
            if event.principal_id != self._own:
                effects += self._heed(event, here=True)
        return effects

    def _heed(self, event: Event, *, here: bool) -> list[Effect]:
        """Do as somebody says about a run, `here` or on a thread below."""
        body = event.body
        if not isinstance(body, InterruptRequested | ApprovalGiven | ResultGiven):
            return []
        run = self._live_run(event.run_id)
        if run is None or run.is_here != here:
            return [Forward(event)] if here else []
        if not isinstance(body, InterruptRequested):
            return [_answered(run, event, body)]
        if event.role not in MAY_INTERRUPT:
            logger.debug("interrupt without effect", extra={"seq": event.seq})
            return []
        return self._stop(run, f"{event.principal_id} asked to stop")

    def _fetch(self) -> list[Effect]:
        missing = self._input.needs() - self._fetching
        self._fetching |= missing
        return [Fetch(run_id) for run_id in sorted(missing)]

    # --- a run ---------------------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        """Begin the next run if one is due."""
        effects: list[Effect] = []
        while self._run is None and self._ready:
            if self._opening is not None:
                opening, self._opening = self._opening, None
                return effects + self._answer(opening, opening.through_seq, goes_on=True)
            if self._inquiry is not None:
                return effects
            if (inquiry := self._inquire()) is not None:
                self._inquiry = inquiry
                return [*effects, inquiry]
            past_seq, taken = self._input.settled_seq, self._input.take()
            if taken is None:
                return effects
            heard = self._attention.hear(taken.messages)
            effects += self._heard(heard, past_seq, taken.through_seq)
        return effects

    def _inquire(self) -> LookUp | LookBack | None:
        """Return what has to be known before what waits can be heard; None when nothing has."""
        authors = self._input.authors
        if unknown := self._attention.unknown(authors):
            return LookUp(unknown)
        return LookBack() if authors and self._attention.needs_past else None

    def _heard(self, heard: Heard, past_seq: int, through_seq: int) -> list[Effect]:
        """Answer, or say why not; what is neither asked nor silent is remembered."""
        if heard.notice is not None:
            return self._decline(heard.notice, through_seq)
        if not heard.asked:
            return [Settle(through_seq)]
        people, may_instruct = self._attention.people, self._rules.may_instruct
        text = compose(heard.asked, people, heard.context, may_instruct)
        prompt = Prompt(text, through_seq, files_of(heard.asked, people))
        return self._answer(prompt, past_seq, goes_on=False)

    def _decline(self, notice: Notice, through_seq: int) -> list[Effect]:
        """Say in a run of its own, which answers nothing, why there is no answer."""
        run = self._run = MainRun(self._new_run_id(), self._new_id(), through_seq)
        record = OpenRun(run_id=run.run_id, prompt_id=run.prompt_id, through_seq=through_seq)
        said = run.begin(None, self._agent) + run.notice(notice)
        return [Begin(record), *said, *run.end("completed", None)]

    def _leave(self) -> list[Effect]:
        """Leave when drained. The session need not wait for what is still on the way out."""
        effects: list[Effect] = []
        if not self._closed and (self._run is None or self._run.ended):
            self._closed = True
            effects += [*self._beside.end_all(STOPPING), Close()]
        if self._run is None and not self._beside:
            effects.append(Leave())
        return effects

    def _answer(self, taken: Prompt, past_seq: int, *, goes_on: bool) -> list[Effect]:
        """Begin a run."""
        preface, self._preface = self._preface, None
        text = taken.text if preface is None else quoted(preface, taken.text)
        run = self._run = MainRun(self._new_run_id(), self._new_id(), taken.through_seq)
        on_record = OpenRun(
            run_id=run.run_id,
            prompt_id=run.prompt_id,
            through_seq=taken.through_seq,
            resumes="session" if goes_on else "nothing" if preface is None else "input",
        )
        return [
            Begin(on_record),
            *run.begin(Trigger(taken.through_seq), self._agent),
            StartTurn(
                run_id=run.run_id,
                through_seq=taken.through_seq,
                prompt_id=run.prompt_id,
                text=text,
                files=taken.files,
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

    def _waits(self) -> bool:
        """Tell whether anything in hand waits for somebody's decision."""
        return any(run.live and run.outbound.asked for run in self._in_hand())

    def _in_hand(self) -> Iterable[Run]:
        return [*([self._run] if self._run else []), *self._beside]

    def _cut(self) -> list[Effect]:
        run = self._run
        if run is None or not (effects := self._stop(run, STOPPING)):
            return []
        run.cut = True
        if self._waits():
            effects += run.notice(EXPIRED)
        return effects

    def _stop(self, run: Run, why: str) -> list[Effect]:
        if run.ended or run.stopped is not None:
            return []
        run.stopped = why
        match run:
            case MainRun():
                return [RunEnded(run.run_id), Interrupt(run.prompt_id)]
            case Aside():
                ended = self._beside.aside_ended(run.tool_call_id, "interrupted", why)
                return [StopAside(run.tool_call_id), *ended]
            case _:
                return []

    def _refused(self, message: RunRefused) -> list[Effect]:
        run = self._live_run(message.run_id)
        return self._stop(run, f"the server refuses it ({message.code})") if run else []

    def _landed(self, run_id: str) -> list[Effect]:
        run = self._run
        if run is None or run.run_id != run_id or run.through_seq is None:
            return self._beside.landed(run_id)
        self._run = None
        return [Excuse() if run.cut else Settle(run.through_seq)]

    def _live_run(self, run_id: str | None) -> Run | None:
        found = (run for run in self._in_hand() if run.run_id == run_id and run.live)
        return next(found, None)

    def _new_run_id(self) -> str:
        return f"run_{self._new_id()}"

    # --- from the harness ----------------------------------------------------------------------

    def _said(self, said: Sequence[AnySaid]) -> list[Effect]:
        effects: list[Effect] = []
        for _, words in groupby(said, _speaker):
            effects += self._hear(list(words))
        return effects

    def _hear(self, said: Sequence[AnySaid]) -> list[Effect]:
        """Take in what was said by one agent in a row, or one thing said about the session."""
        match said[0]:
            case AsideSaid(tool_call_id=call_id):
                words = [item.said for item in said if isinstance(item, AsideSaid)]
                return self._beside.aside_said(call_id, words)
            case AsideBegan(tool_call_id=call_id):
                return self._beside.aside_said(call_id, [])
            case AsideEnded(tool_call_id=call_id, status=status):
                return self._beside.aside_ended(call_id, status)
            case TasksRunning(count=count):
                self._beside.tasks = count
                return []
            case Woke() as woke:
                return self._beside.wake(woke)
            case TurnEnded() as ended:
                return self._turn_ended(ended)
            case _:
                return self._main_said([item for item in said if isinstance(item, Spoken)])

    def _main_said(self, said: Sequence[Spoken]) -> list[Effect]:
        run = self._beside.woken or self._run
        if run is None or run.ended:
            logger.debug("%d words of the agent outside any run", len(said))
            return []
        return self._beside.say(run, said)

    def _turn_ended(self, ended: TurnEnded) -> list[Effect]:
        run = self._beside.sleep(ended.prompt_id) or self._run
        if run is None or run.ended or ended.prompt_id != run.prompt_id:
            return []
        if ended.status == "failed":
            return run.fail(ended.code, ended.text, self._beside.tasks)
        return run.end(ended.status, ended.text, self._beside.tasks)

    def _session_ended(self, message: SessionEnded) -> list[Effect]:
        run = self._run
        effects = self._beside.end_all(message.text, message.code)
        if run is not None and not run.ended and message.prompt_id == run.prompt_id:
            effects += run.fail(message.code, message.text)
        return effects

    def _settled(self, message: ApprovalSettled) -> list[Effect]:
        run = self._live_run(message.run_id)
        if run is None or run.stopped is not None:
            return []
        call, decision, effects = message.tool_call_id, message.decision, list[Effect]()
        if decision.supplied is not None:
            given = decision.supplied
            drafts = run.outbound.answered_elsewhere(call, given.output, given.is_error)
            effects += run.append(drafts)
        elif decision.standing is not None:
            text = f"Allowed without being asked: {decision.standing} allowed this for the run."
            effects += run.notice(Notice("info", "auto_approved", text))
        elif not (decision.allowed or decision.expired):
            run.outbound.denied(call)
        return [*effects, Decide(tool_call_id=call, decision=decision)]


def _answered(run: Run, event: Event, body: ApprovalGiven | ResultGiven) -> ApprovalAnswered:
    return ApprovalAnswered(
        run_id=run.run_id,
        tool_call_id=body.tool_call_id,
        principal_id=event.principal_id,
        role=event.role,
        kind="approval" if isinstance(body, ApprovalGiven) else "result",
        decision=decision_of(event.principal_id, body),
    )


def _speaker(item: AnySaid) -> object:
    """Return by whom it is said; what is said about the session stands alone."""
    if isinstance(item, AsideSaid):
        return item.tool_call_id
    return None if isinstance(item, Spoken) else id(item)


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
        for_run = body.scope == "run" and body.updated_input is None
        return Decision(allowed=True, updated_input=body.updated_input, for_run=for_run)
    return Decision(allowed=False, message=body.reason or "")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
