"""ThreadActor: the hub of one conversation. Reads its history, follows it, does what it decides.

All decisions are `actors.conversation`'s. This shell may wait for a child's inbox, because a
child's receiving task never waits for it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf

import trio

from actors import backlog, leftovers, recovery
from actors.archive import archive_later
from actors.attention import InputRules
from actors.backlog import Backlog
from actors.census import Census
from actors.conversation import Conversation
from actors.effects import (
    HERE,
    Archive,
    Begin,
    Effect,
    Excuse,
    Fetch,
    Forward,
    GoBack,
    Leave,
    LookBack,
    LookUp,
    Own,
    Release,
    See,
    Settle,
)
from actors.events import Agent, Event
from actors.log_ids import LogIds
from actors.messages import (
    Append,
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalInbox,
    Close,
    Decide,
    EventsSeen,
    Interrupt,
    OutboxInbox,
    PastRead,
    PeopleFound,
    QueryInbox,
    RunEnded,
    RunFetched,
    StartTurn,
    StopAside,
    ThreadGranted,
    ThreadInbox,
)
from actors.people import Person
from actors.ports import Evidence, Journal, OpenRun, Position, Record, Refused, ThreadLog
from actors.recovery import Fate
from actors.run_owners import RunOwners

logger = logging.getLogger(__name__)

LOOK_UP_S = 20.0
"""Longest wait for who somebody is; then the id alone does."""
PAST_EVENTS = 2_000
"""So much of the log is read for what was said before; a long answer is many events."""

AskEvidence = Callable[[str, str | None, str], Awaitable[Evidence]]
"""`Harness.evidence`."""


class Children:
    """The inboxes of a thread's children, seen from ThreadActor, which closes them."""

    def __init__(
        self,
        query: trio.MemorySendChannel[QueryInbox],
        approvals: trio.MemorySendChannel[ApprovalInbox],
        outbox: trio.MemorySendChannel[OutboxInbox],
    ) -> None:
        self.query, self.approvals, self.outbox = query, approvals, outbox

    def close(self) -> None:
        """Close all three."""
        self.query.close()
        self.approvals.close()
        self.outbox.close()


class ThreadActor:
    """Owns the conversation and its subscription; closes its inbox and its children's."""

    def __init__(
        self,
        granted: ThreadGranted,
        inbox: trio.MemoryReceiveChannel[ThreadInbox],
        inbox_send: trio.MemorySendChannel[ThreadInbox],
        children: Children,
        log: ThreadLog,
        journal: Journal,
        evidence: AskEvidence,
        owners: RunOwners,
        ids: LogIds,
        *,
        own_principal_id: str,
        agent: Agent,
        policy: Backlog,
        archive_s: float,
        rules: InputRules,
        new_id: Callable[[], str],
    ) -> None:
        self._granted, self._thread_id = granted, granted.thread_id
        self._inbox, self._inbox_send, self._children = inbox, inbox_send, children
        self._log, self._journal, self._ids = log, journal, ids
        self._evidence, self._owners = evidence, owners
        self._policy, self._own = policy, own_principal_id
        self._archive_s = archive_s
        self._begin = partial(
            Conversation,
            own_principal_id=own_principal_id,
            agent=agent,
            new_id=new_id,
            rules=rules,
        )
        self._conversation: Conversation
        self.goes_back_to: int | None = None
        """Where the log ends now, when that is why the actor has left."""

    def statistics(self) -> Census:
        """Return what is held of the thread; ask once it has started."""
        return self._conversation.statistics()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until drained, or until cancelled. Started once the history has been read."""
        try:
            async with self._inbox, self._inbox_send, trio.open_nursery() as nursery:
                record, fate = await self._recover()
                after = await self._catch_up(nursery, record.seen, fate)
                task_status.started()
                async with self._log.subscribe(self._thread_id, after, self._inbox_send):
                    await self._serve(nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._children.close()

    async def _recover(self) -> tuple[Record, Fate]:
        """Say what an earlier process could not say, and decide what becomes of its run."""
        record = await self._journal.record(self._thread_id)
        unsent = [keyed for keyed in record.unsent if keyed.draft.run_id not in self._owners]
        if unsent:
            await leftovers.resend(self._log, self._thread_id, unsent)
            await self._journal.keep(self._thread_id, (), [keyed.key for keyed in unsent])
        run = record.run
        begun = [*self._granted.open_runs, *(keyed.draft.run_id for keyed in unsent)]
        for run_id in dict.fromkeys(begun):
            if (run is None or run_id != run.run_id) and run_id not in self._owners:
                await self._end_unknown(run_id)
        return record, Fate() if run is None else await self._take_up(run)

    async def _end_unknown(self, run_id: str) -> None:
        """End a run of ours that the journal does not know, unless it may be in another's hand."""
        if self._log.is_alone:
            await leftovers.end(self._log, self._thread_id, run_id)
        else:
            logger.error(
                "run %s is left as it is: it may be of the other process that is connected as "
                "this bot",
                run_id,
            )

    async def _take_up(self, run: OpenRun) -> Fate:
        """Decide about a run that was not settled, and do what that asks for at once."""
        events = await self._log.run_events(self._thread_id, run.run_id)
        session_id = self._journal.session_id(self._thread_id)
        evidence = await self._evidence(self._thread_id, session_id, run.prompt_id)
        fate = recovery.decide(run, events, evidence)
        extra = {"run_id": run.run_id, "seq": run.through_seq}
        logger.info("took up a run that was cut: %s, try %d", evidence.fate, run.tries, extra=extra)
        if fate.events:
            await leftovers.append(self._log, self._thread_id, fate.events)
        if fate.settles:
            await self._settle(run.through_seq)
        return fate

    async def _catch_up(self, nursery: trio.Nursery, seen: int, fate: Fate) -> int:
        """Take the thread up where the policy says; return the seq to follow from.

        What an earlier process of ours has seen is read whatever the policy says.
        """
        checkpoint = self._journal.checkpoints().get(self._thread_id)
        start = backlog.start(self._granted, checkpoint, self._log.log_epoch, self._policy)
        floor, waits = start.floor, seen > start.floor
        if start.skips and not waits:
            floor = await self._skip(floor)
        window: tuple[Event, ...] = ()
        if (waits or not start.skips) and backlog.has_news(self._granted, floor):
            newest = max(1, self._policy.max_replay) + max(0, seen - floor)
            window = tuple(await self._log.window(self._thread_id, floor, newest))
        begun = max(floor, backlog.answered(window, self._own))
        begun = begun if fate.goes_on is None else max(begun, fate.goes_on.through_seq)
        self._conversation = self._begin(floor=begun, opening=fate.goes_on, preface=fate.preface)
        if not window:
            return floor
        _tell_skipped(backlog.skipped(floor, window))
        await self._step(EventsSeen(window), nursery)
        return max(window[-1].seq, floor)

    async def _skip(self, floor: int) -> int:
        """Settle what nobody reads, so that the next start does not find it; return the head."""
        head = self._granted.last_seq
        if head is None:
            newest = await self._log.window(self._thread_id, floor, 1)
            head = newest[-1].seq if newest else floor
        if head > floor:
            _tell_skipped(head - floor)
            await self._settle(head)
        return max(head, floor)

    async def _serve(self, nursery: trio.Nursery) -> None:
        async for message in self._inbox:
            if not await self._step(message, nursery):
                return

    async def _step(self, message: ThreadInbox, nursery: trio.Nursery) -> bool:
        """Do what follows from a message; False when that is to leave."""
        for effect in self._conversation.step(message):
            if isinstance(effect, GoBack):
                self.goes_back_to = effect.head
            if isinstance(effect, Leave | GoBack):
                return False
            await self._do(effect, nursery)
        return True

    async def _do(self, effect: Effect, nursery: trio.Nursery) -> None:
        match effect:
            case Begin():
                await self._journal.begin(self._thread_id, effect.run)
            case See():
                # A journal that cannot be written now must not keep an interrupt from being heard.
                nursery.start_soon(self._journal.see, self._thread_id, effect.seq)
            case StartTurn():
                self._ids.run_id, self._ids.seq = effect.run_id, effect.through_seq
                logger.info("run started")
                await self._children.query.send(effect)
            case Decide() | Interrupt() | StopAside() | Close():
                await self._children.query.send(effect)
            case ApprovalAsked() | ApprovalAnswered() | RunEnded():
                await self._children.approvals.send(effect)
            case Append():
                await self._children.outbox.send(effect)
            case Own():
                thread_id = self._thread_id if effect.thread_id == HERE else effect.thread_id
                self._owners.own(effect.run_id, thread_id, self._inbox_send)
            case Release():
                self._owners.release(effect.run_id)
            case Archive() if self._archive_s < inf:
                archive = (effect.thread_id, effect.run_id, self._archive_s)
                nursery.start_soon(archive_later, self._log, *archive)
            case Archive():
                pass
            case Forward():
                await self._forward(effect.event)
            case Settle():
                await self._settle(effect.seq)
            case Excuse():
                await self._journal.excuse(self._thread_id)
            case Fetch():
                nursery.start_soon(self._fetch, effect.run_id)
            case LookUp():
                nursery.start_soon(self._look_up, effect.principal_ids)
            case LookBack():
                nursery.start_soon(self._look_back)
            case Leave() | GoBack():
                pass

    async def _forward(self, event: Event) -> None:
        if not await self._owners.forward(self._thread_id, event, self._inbox_send):
            logger.debug("said of a run that is not in hand", extra={"seq": event.seq})

    async def _settle(self, seq: int) -> None:
        await self._journal.settle(self._thread_id, Position(self._log.log_epoch, seq))
        self._log.mark(self._thread_id, seq)
        logger.info("settled", extra={"seq": seq})
        self._ids.run_id = self._ids.seq = None

    async def _fetch(self, run_id: str) -> None:
        events = await self._log.run_events(self._thread_id, run_id)
        await self._inbox_send.send(RunFetched(run_id, tuple(events)))

    async def _look_up(self, principal_ids: tuple[str, ...]) -> None:
        people: Sequence[Person] = ()
        try:
            with trio.fail_after(LOOK_UP_S):
                people = await self._log.people(self._thread_id, principal_ids)
        except (Refused, trio.TooSlowError) as why:
            logger.warning("it is not known who takes part: %r", why)
        await self._inbox_send.send(PeopleFound(tuple(people)))

    async def _look_back(self) -> None:
        events: Sequence[Event] = ()
        after = max(0, self._granted.joined_seq - 1)
        try:
            events = await self._log.window(self._thread_id, after, PAST_EVENTS)
        except Refused as refused:
            logger.warning("what was said before cannot be read: %s", refused)
        await self._inbox_send.send(PastRead(tuple(events)))


def _tell_skipped(count: int) -> None:
    if count:
        logger.info("skipped %d events that were there before", count)
