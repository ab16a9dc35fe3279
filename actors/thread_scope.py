"""One thread's actors in one scope: cancel it, and the thread is gone, its processes with it.

QueryActor and ApprovalActor are restarted alone. When ThreadActor or OutboxActor crashes, all four
begin anew from the journal; when that happens too often, the thread is parked: it says so and is
left alone until it is granted anew, or scuba started anew.
"""

import logging
from collections.abc import Callable
from functools import partial
from math import inf

import msgspec
import trio

from actors import leftovers
from actors.approval import ApprovalActor
from actors.attention import InputRules
from actors.backlog import Backlog, after_crash
from actors.census import Census, total
from actors.events import Agent
from actors.history import recall
from actors.log_ids import LogIds, log_ids
from actors.messages import (
    ApprovalInbox,
    Cut,
    Drain,
    OutboxInbox,
    QueryInbox,
    ThreadGranted,
    ThreadInbox,
)
from actors.outbox import OutboxActor
from actors.places import Places
from actors.ports import Harness, Journal, Position, ThreadLog
from actors.query import QueryActor
from actors.run_owners import RunOwners
from actors.supervise import supervise
from actors.thread import Children, ThreadActor

logger = logging.getLogger(__name__)

THREAD_INBOX = 64
"""Messages; a subscription that finds it full waits off the socket (architecture, channels)."""
QUERY_INBOX = 8
STOP_S = 27.0
"""What is left of the 30 s of a stop for its runs, whatever they are given."""
GOODBYE_S = 3.0
"""Longest time for the runs of its sub-agents to be ended when a thread is gone."""
SPARE_S = 1.0
"""Time for the last events of a run to reach the server."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a bot behaves on its threads."""

    own_principal_id: str
    backlog: Backlog = Backlog()
    input: InputRules = InputRules()
    """Whom it listens to."""
    cooperative_s: float = 10.0
    """An interrupt may take so long to be obeyed …"""
    drain_s: float = 8.0
    """… and closing the session that did not obey so long again."""
    approval_expiry_s: float = inf
    """A call that nobody answers for so long does not run."""
    idle_s: float = 600.0
    """A session that rested so long is closed; the next message resumes it."""
    max_live: int = 20
    """Sessions that work at once."""
    max_processes: int = 40
    """Sessions that are open at once, those included that wait for a person or rest."""
    archive_s: float = inf
    """The thread of a sub-agent that is done is archived after so long, if nobody spoke there."""
    budget_usd: float = inf
    """What a thread may cost."""
    shows_usage: bool = False
    """What a run used is said on the thread."""
    grace_s: float = 6.0
    """When scuba stops, a turn that works may go on so long before it is interrupted."""

    @property
    def farewell_s(self) -> float:
        """Longest time for all threads together to end their runs when scuba stops."""
        return min(self.grace_s + self.cooperative_s + self.drain_s + SPARE_S, STOP_S)


class Outside(msgspec.Struct, frozen=True):
    """The ports, filled, and the policy: what every thread of a bot shares."""

    log: ThreadLog
    harness: Harness
    journal: Journal
    policy: Policy
    new_id: Callable[[], str]


class Shared(msgspec.Struct, frozen=True):
    """What the threads of a bot share among each other; root's."""

    places: Places
    owners: RunOwners


class ThreadScope:
    """Owns the channels and the four actors of one thread. `gone` is set when all is over."""

    def __init__(self, granted: ThreadGranted, outside: Outside, shared: Shared) -> None:
        self.granted = granted
        self.gone = trio.Event()
        self._outside, self._shared = outside, shared
        self._left: list[tuple[str, str]] = []
        """Thread and id of sub-agents' runs that nobody works on any more."""
        self._scope = trio.CancelScope()
        self._dismissed = False
        self._is_first_life = True
        self._ids = LogIds(granted.thread_id)
        self._serving: trio.MemorySendChannel[ThreadInbox] | None = None
        self._counted: dict[str, Callable[[], Census]] = {}
        """The actors that live, and what each holds."""

    def statistics(self) -> Census:
        """Return what is held of the thread; its session is counted with the places."""
        return total([Census(threads=1), *(count() for count in self._counted.values())])

    @property
    def is_cancelled(self) -> bool:
        """Whether the thread was told to stop now."""
        return self._scope.cancel_called

    def serves(self, granted: ThreadGranted) -> bool:
        """Return whether this grant is the one that the thread was begun for, and still has."""
        return not self.is_cancelled and self.granted.joined_seq == granted.joined_seq

    def cancel(self) -> None:
        """Stop the thread now."""
        self._scope.cancel()

    async def dismiss(self) -> None:
        """Let the thread end its run, then be gone; at once when it has none to end."""
        self._dismissed = True
        await self._tell(Drain())
        with trio.move_on_after(self._outside.policy.grace_s):
            await self.gone.wait()
        if not self.gone.is_set():
            await self._tell(Cut())
        await self.gone.wait()

    async def _tell(self, message: Drain | Cut) -> None:
        try:
            if self._serving is None:
                self.cancel()
            else:
                await self._serving.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.cancel()  # its actors are between two lives

    async def hold(self, before: "ThreadScope | None") -> None:
        """Keep the actors alive until they leave, crash too often, or are cancelled.

        The scope that had the thread before is gone first. A run that a crash left open, with
        no further life to end it, is ended.
        """
        log_ids.set(self._ids)
        name = f"thread {self.granted.thread_id}"
        try:
            if before is not None:
                await before.gone.wait()  # also when cancelled: whoever comes next waits for us
            if self.is_cancelled:
                return
            with self._scope:
                logger.info("thread started")
                left = await supervise(self._lives, name=name, park=True)
                end = self._end_runs if left else self._park
                await supervise(end, name=f"end of {name}", intensity=1, park=True)
        finally:
            self.gone.set()

    async def _end_left(self, inbox: trio.MemorySendChannel[ThreadInbox]) -> None:
        """End what sub-agents had begun on their threads when their session was lost."""
        self._left += self._shared.owners.left_by(inbox)
        with trio.move_on_after(GOODBYE_S, shield=True):
            while self._left:
                await leftovers.end(self._outside.log, *self._left[-1])
                self._left.pop()

    async def _end_runs(self) -> None:
        for run_id in self.granted.open_runs:
            await leftovers.end(self._outside.log, self.granted.thread_id, run_id)

    async def _park(self) -> None:
        """Say on the thread that it is left alone, whatever of its actors cannot say it."""
        outside, granted = self._outside, self.granted
        record = await outside.journal.record(granted.thread_id)
        await leftovers.resend(outside.log, granted.thread_id, record.unsent)
        spare = f"run_{outside.new_id()}"
        await leftovers.park(outside.log, granted.thread_id, granted.open_runs, spare)

    async def _lives(self) -> None:
        """Run one life after another for as long as the log goes back under them."""
        while (head := await self._live()) is not None:
            joined_seq = min(self.granted.joined_seq, head)
            self.granted = msgspec.structs.replace(self.granted, joined_seq=joined_seq)
            position = Position(self._outside.log.log_epoch, head)
            # After the life, so that none of its actors puts anything more on record.
            await self._outside.journal.go_back(self.granted.thread_id, position)

    async def _live(self) -> int | None:
        """Run the four actors until ThreadActor leaves or one of them crashes.

        Returns where the log ends now, if that is below what was read of it.
        """
        if self._dismissed:
            return None
        inbox_send, inbox = trio.open_memory_channel[ThreadInbox](THREAD_INBOX)
        query_send, query = trio.open_memory_channel[QueryInbox](QUERY_INBOX)
        approvals_send, approvals = trio.open_memory_channel[ApprovalInbox](0)
        outbox_send, outbox = trio.open_memory_channel[OutboxInbox](0)
        children = Children(query_send.clone(), approvals_send.clone(), outbox_send)
        thread_inbox = inbox_send.clone()
        thread = self._thread_actor(inbox, thread_inbox, children)
        thread_id, log = self.granted.thread_id, self._outside.log
        journal = self._outside.journal

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            await thread.run(task_status=task_status)
            nursery.cancel_scope.cancel()

        with inbox_send, query_send, query, approvals_send, approvals:
            try:
                async with trio.open_nursery() as nursery:
                    start = nursery.start_soon
                    queries = partial(self._query, query, inbox_send)
                    start(partial(supervise, queries, name=f"query {thread_id}"))
                    requests = partial(self._approvals, approvals, inbox_send)
                    start(partial(supervise, requests, name=f"approvals {thread_id}"))
                    sender = OutboxActor(thread_id, outbox, inbox_send.clone(), log, journal)
                    start(sender.run)
                    self._counted["outbox"] = sender.statistics
                    await nursery.start(serve)
                    self._counted["thread"] = thread.statistics
                    self.granted = msgspec.structs.replace(self.granted, open_runs=())
                    self._serving = inbox_send
            finally:
                self._serving = None
                self._counted.clear()
                self._begin_anew()
                await self._end_left(thread_inbox)
        return thread.goes_back_to

    def _begin_anew(self) -> None:
        """Let the next life, if there is one, read its history and end what was left open."""
        self._is_first_life = False
        left = (self._ids.run_id,) if self._ids.run_id else ()
        self._ids.run_id = self._ids.seq = None
        self.granted = msgspec.structs.replace(
            self.granted, last_seq=None, open_runs=self.granted.open_runs + left
        )

    async def _query(
        self,
        inbox: trio.MemoryReceiveChannel[QueryInbox],
        outbox: trio.MemorySendChannel[ThreadInbox],
    ) -> None:
        outside, policy, thread_id = self._outside, self._outside.policy, self.granted.thread_id
        own_id = policy.own_principal_id
        await QueryActor(
            thread_id,
            own_id,
            inbox.clone(),
            outbox.clone(),
            outside.harness,
            outside.journal,
            partial(recall, outside.log, thread_id, self.granted.joined_seq, own_id),
            partial(outside.log.content, thread_id),
            place=self._shared.places.place(),
            cooperative_s=policy.cooperative_s,
            drain_s=policy.drain_s,
            idle_s=policy.idle_s,
            budget_usd=policy.budget_usd,
            shows_usage=policy.shows_usage,
        ).run()

    async def _approvals(
        self,
        inbox: trio.MemoryReceiveChannel[ApprovalInbox],
        outbox: trio.MemorySendChannel[ThreadInbox],
    ) -> None:
        policy = self._outside.policy
        actor = ApprovalActor(
            inbox.clone(), outbox.clone(), policy.own_principal_id, policy.approval_expiry_s
        )
        self._counted["approvals"] = actor.statistics
        await actor.run()

    def _thread_actor(
        self,
        inbox: trio.MemoryReceiveChannel[ThreadInbox],
        inbox_send: trio.MemorySendChannel[ThreadInbox],
        children: Children,
    ) -> ThreadActor:
        outside, policy = self._outside, self._outside.policy
        harness = outside.harness
        model = harness.model_of(self.granted.thread_id)
        return ThreadActor(
            self.granted,
            inbox,
            inbox_send,
            children,
            outside.log,
            outside.journal,
            harness.evidence,
            self._shared.owners,
            self._ids,
            own_principal_id=policy.own_principal_id,
            agent=Agent(name=policy.own_principal_id, harness=harness.name, model=model),
            archive_s=policy.archive_s,
            policy=policy.backlog if self._is_first_life else after_crash(policy.backlog),
            rules=policy.input,
            new_id=outside.new_id,
        )
