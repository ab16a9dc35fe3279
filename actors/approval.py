"""Approvals: each request for permission ends in exactly one outcome (5.7)."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from math import inf

import msgspec
import trio

from actors.census import Census
from actors.events import Notice
from actors.harness import Decision
from actors.messages import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalInbox,
    ApprovalRejected,
    ApprovalSettled,
    RunEnded,
)

logger = logging.getLogger(__name__)

GOODBYE_S = 1.0
"""Longest time the actor holds up its own end to say what it withdrew."""
MAX_KEPT = 1_000
"""Calls with answers but without a question; beyond, the oldest is forgotten."""
MAX_REFUSED = 100
"""Principals told for one call that they may not decide; further ones are only logged."""

ROLES = {
    "approval": frozenset({"owner", "approver"}),
    "result": frozenset({"owner", "tool_runner"}),
}
UNANSWERED = Decision(
    allowed=False,
    expired=True,
    message="Nobody answered this request in time. Nobody denied it either: it did not run, and it "
    "may be asked for again.",
)
EXPIRED = Notice(
    "warning", "approval_expired", "Nobody answered in time; the call did not run. Ask again."
)
WITHDRAWN = Decision(allowed=False, message="Nobody can answer this call any more.")

ApprovalOutcome = ApprovalSettled | ApprovalRejected
_Call = tuple[str, str]


class Statistics(msgspec.Struct, frozen=True):
    """How much is kept, for people and tests."""

    open: int
    settled: int
    early: int
    """Answers whose question has not come."""


class OpenRequests:
    """The calls of runs in hand, asked or already answered. No I/O.

    The first valid answer in order of arrival decides, also when it came before its question;
    every later one is inert. What belongs to a run is kept until the run ends.
    """

    def __init__(self, own_principal_id: str) -> None:
        self._own = own_principal_id
        self._open: dict[_Call, ApprovalAsked] = {}
        self._standing: dict[tuple[str, str], str] = {}
        """By run and tool, who allowed all its calls."""
        self._settled: set[_Call] = set()
        self._early: OrderedDict[_Call, list[ApprovalAnswered]] = OrderedDict()
        self._refused: dict[_Call, set[str]] = {}
        self._expired: set[_Call] = set()

    def statistics(self) -> Statistics:
        """Return a snapshot."""
        early = sum(map(len, self._early.values()))
        return Statistics(len(self._open), len(self._settled), early)

    def __len__(self) -> int:
        """Return of how many calls anything is kept."""
        return len({*self._open, *self._settled, *self._early, *self._refused})

    def step(self, message: ApprovalInbox) -> list[ApprovalOutcome]:
        """Take one message; return what it settled and whom it refused."""
        match message:
            case ApprovalAsked():
                return self._ask(message)
            case ApprovalAnswered(run_id=run_id, tool_call_id=tool_call_id):
                return self._answer((run_id, tool_call_id), message)
            case RunEnded(run_id=run_id):
                self._forget(run_id)
                return []

    def waits(self, run_id: str, tool_call_id: str) -> bool:
        """Return whether a call was asked for and nothing has settled it."""
        return (run_id, tool_call_id) in self._open

    def expire(self, run_id: str, tool_call_id: str) -> list[ApprovalOutcome]:
        """Let a call go that nobody answered in time; nothing when somebody has."""
        call = run_id, tool_call_id
        if call not in self._open:
            return []
        self._expired.add(call)
        return [ApprovalRejected(run_id=run_id, notice=EXPIRED), self._settle(call, UNANSWERED)]

    def withdraw_all(self) -> list[ApprovalSettled]:
        """Deny everything still open; said once, on the way out."""
        gone = [
            ApprovalSettled(run_id=run_id, tool_call_id=tool_call_id, decision=WITHDRAWN)
            for run_id, tool_call_id in self._open
        ]
        self._settled.update(self._open)
        self._open.clear()
        return gone

    def _ask(self, asked: ApprovalAsked) -> list[ApprovalOutcome]:
        call = asked.run_id, asked.tool_call_id
        if call in self._open or call in self._settled:
            return []
        self._open[call] = asked
        outcomes: list[ApprovalOutcome] = []
        for answer in self._early.pop(call, []):
            outcomes += self._answer(call, answer)
        return outcomes + self._let_stand(asked.run_id)

    def _settle(self, call: _Call, decision: Decision) -> ApprovalSettled:
        del self._open[call]
        self._settled.add(call)
        return ApprovalSettled(run_id=call[0], tool_call_id=call[1], decision=decision)

    def _answer(self, call: _Call, answer: ApprovalAnswered) -> list[ApprovalOutcome]:
        if call not in self._open and call not in self._settled:
            self._keep(call, answer)
            return []
        if not self._may_decide(answer):
            return self._refuse(call, answer)
        if call in self._settled:
            return self._too_late(call, answer)
        asked = self._open[call]
        if answer.decision.for_run and not asked.is_question:
            self._standing[asked.run_id, asked.tool_name] = answer.principal_id
        return [self._settle(call, _for_the_model(answer)), *self._let_stand(asked.run_id)]

    def _let_stand(self, run_id: str) -> list[ApprovalOutcome]:
        """Allow what waits in a run by somebody's yes for the run."""
        outcomes: list[ApprovalOutcome] = []
        for call, asked in list(self._open.items()):
            who = self._standing.get((asked.run_id, asked.tool_name))
            if who is not None and asked.run_id == run_id:
                outcomes.append(self._settle(call, Decision(allowed=True, standing=who)))
        return outcomes

    def _too_late(self, call: _Call, answer: ApprovalAnswered) -> list[ApprovalOutcome]:
        """Tell the first who answers a call that expired; other late answers are only logged."""
        ids = {"run_id": call[0], "tool_call_id": call[1], "principal_id": answer.principal_id}
        logger.info("answer after the decision, without effect", extra=ids)
        if call not in self._expired:
            return []
        self._expired.discard(call)
        text = f"{answer.principal_id} answered too late: nobody had in time, and it did not run."
        return [ApprovalRejected(run_id=call[0], notice=Notice("warning", "too_late", text))]

    def _keep(self, call: _Call, answer: ApprovalAnswered) -> None:
        """Keep what a question would need: the first valid answer, and one refusal a principal."""
        kept = self._early.setdefault(call, [])
        valid = self._may_decide(answer)
        if valid and any(self._may_decide(other) for other in kept):
            return
        if not valid and any(other.principal_id == answer.principal_id for other in kept):
            return
        if valid or len(kept) < MAX_REFUSED:
            kept.append(answer)
        if len(self._early) > MAX_KEPT:
            self._early.popitem(last=False)

    def _may_decide(self, answer: ApprovalAnswered) -> bool:
        return answer.principal_id != self._own and answer.role in ROLES[answer.kind]

    def _refuse(self, call: _Call, answer: ApprovalAnswered) -> list[ApprovalOutcome]:
        run_id, tool_call_id = call
        refused = self._refused.setdefault(call, set())
        if answer.principal_id in refused or len(refused) >= MAX_REFUSED:
            return []
        refused.add(answer.principal_id)
        whose = {"principal_id": answer.principal_id, "role": answer.role, "kind": answer.kind}
        logger.warning(
            "answer by somebody who may not decide",
            extra={"run_id": run_id, "tool_call_id": tool_call_id, **whose},
        )
        return [ApprovalRejected(run_id=run_id, notice=_not_permitted(answer))]

    def _forget(self, run_id: str) -> None:
        for calls in (self._open, self._early, self._refused):
            for call in [call for call in calls if call[0] == run_id]:
                del calls[call]
        self._standing = {at: who for at, who in self._standing.items() if at[0] != run_id}
        self._settled = {call for call in self._settled if call[0] != run_id}
        self._expired = {call for call in self._expired if call[0] != run_id}


def _not_permitted(answer: ApprovalAnswered) -> Notice:
    what = "decide on" if answer.kind == "approval" else "answer"
    return Notice("warning", "not_permitted", f"{answer.principal_id} may not {what} this call.")


def _for_the_model(answer: ApprovalAnswered) -> Decision:
    """Return the decision; a denial says who denied and why, for the model to act on."""
    decision = answer.decision
    if decision.allowed or answer.kind == "result":
        return decision
    reason = decision.message.strip()
    told = f"with this reason: {reason}" if reason else "and gave no reason."
    message = f"{answer.principal_id} denied this call {told}"
    return msgspec.structs.replace(decision, message=message)


class ApprovalActor:
    """Owns one inbox end and one outbox end, and closes both when it leaves.

    One task takes messages in and never waits for the outbox; another sends. So whoever asks may
    wait for this actor while this actor waits for them.
    """

    def __init__(
        self,
        inbox: trio.MemoryReceiveChannel[ApprovalInbox],
        outbox: trio.MemorySendChannel[ApprovalOutcome],
        own_principal_id: str,
        expiry_s: float = inf,
    ) -> None:
        self._expiry_s = expiry_s
        self._inbox = inbox
        self._outbox = outbox
        self._open = OpenRequests(own_principal_id)
        self._expires_at: dict[_Call, float] = {}
        """Of the calls that wait; trio-clock time."""
        self._unsent: list[ApprovalOutcome] = []
        self._more = trio.Event()

    def statistics(self) -> Census:
        """Return of how many calls anything is kept."""
        return Census(calls=len(self._open))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until every sender has closed, or until cancelled."""
        async with self._inbox, self._outbox:
            task_status.started()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send, name="approvals: send")
                    await self._receive()
                    nursery.cancel_scope.cancel()
            finally:
                # Cancelled or crashed, a harness still waits for a word.
                self._say(self._open.withdraw_all())
                with trio.move_on_after(GOODBYE_S, shield=True):
                    await self._flush()

    async def _receive(self) -> None:
        while True:
            message: ApprovalInbox | None = None
            # receive() is atomic under cancellation: a deadline loses no message.
            with trio.move_on_at(min(self._expires_at.values(), default=inf)):
                try:
                    message = await self._inbox.receive()
                except trio.EndOfChannel:
                    return
            self._expire(trio.current_time())
            if message is not None:
                self._take(message)

    def _take(self, message: ApprovalInbox) -> None:
        self._say(self._open.step(message))
        if isinstance(message, ApprovalAsked):
            call = message.run_id, message.tool_call_id
            self._expires_at.setdefault(call, trio.current_time() + self._expiry_s)
        self._expires_at = {
            call: at for call, at in self._expires_at.items() if self._open.waits(*call)
        }

    def _expire(self, now: float) -> None:
        for call in [call for call, at in self._expires_at.items() if at <= now]:
            del self._expires_at[call]
            self._say(self._open.expire(*call))

    def _say(self, outcomes: Sequence[ApprovalOutcome]) -> None:
        self._unsent.extend(outcomes)
        self._more.set()

    async def _send(self) -> None:
        while True:
            await self._more.wait()
            self._more = trio.Event()
            await self._flush()

    async def _flush(self) -> None:
        while self._unsent:
            try:
                await self._outbox.send(self._unsent[0])  # sent, or cancelled and kept
            except trio.BrokenResourceError:
                self._unsent.clear()  # nobody is left to be told
            else:
                del self._unsent[0]
