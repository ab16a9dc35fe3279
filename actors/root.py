"""The root: one scope a thread. What is granted runs, what is revoked stops at once.

Owns every channel's original ends, so that an actor may die and return unnoticed by its senders.
"""

import logging
from collections.abc import Callable
from functools import partial

import msgspec
import trio

from actors.approval import ApprovalActor
from actors.events import Agent
from actors.grants import GrantWatcher
from actors.log_ids import LogIds, log_ids
from actors.messages import (
    ApprovalInbox,
    Drain,
    GrantChange,
    OutboxInbox,
    QueryInbox,
    ThreadGranted,
    ThreadInbox,
    ThreadRevoked,
)
from actors.outbox import OutboxActor
from actors.ports import Harness, Journal, ThreadLog
from actors.query import QueryActor
from actors.supervise import supervise
from actors.thread import Children, ThreadActor

logger = logging.getLogger(__name__)

THREAD_INBOX = 64
"""Messages; a subscription that finds it full waits off the socket (architecture, channels)."""
QUERY_INBOX = 8


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a bot behaves on its threads."""

    own_principal_id: str
    max_replay: int = 50
    """Events of history read when a thread starts."""
    cooperative_s: float = 10.0
    """An interrupt may take so long to be obeyed …"""
    drain_s: float = 8.0
    """… and closing the session that did not obey so long again."""
    farewell_s: float = 24.0
    """Longest time for all threads together to end their runs when scuba stops."""


class Running:
    """A thread that has a scope: cancel it to stop the thread, wait for `gone` to see it gone."""

    def __init__(self, granted: ThreadGranted) -> None:
        self.granted = granted
        self.scope = trio.CancelScope()
        self.gone = trio.Event()
        self.inbox: trio.MemorySendChannel[ThreadInbox] | None = None
        """Of the actor that lives now, once it has read its history."""

    def begin_anew(self, run_id: str | None) -> None:
        """Forget what the next life of the actors must find out for itself."""
        self.inbox = None
        open_runs = (run_id,) if run_id else ()
        self.granted = msgspec.structs.replace(self.granted, last_seq=None, open_runs=open_runs)


class Root:
    """Owns GrantWatcher and every thread's actors."""

    def __init__(
        self,
        log: ThreadLog,
        harness: Harness,
        journal: Journal,
        policy: Policy,
        new_id: Callable[[], str],
    ) -> None:
        self._log, self._harness, self._journal = log, harness, journal
        self._policy, self._new_id = policy, new_id
        self._agent = Agent(name=policy.own_principal_id, harness=harness.name, model=harness.model)
        self._threads: dict[str, Running] = {}

    async def run(
        self,
        stop: trio.Event,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`, then drain: runs are ended and told, within `farewell_s`."""
        send, receive = trio.open_memory_channel[GrantChange](0)
        async with send, receive, trio.open_nursery() as threads:
            async with trio.open_nursery() as grants:
                watch = partial(self._watch, send)
                grants.start_soon(partial(supervise, watch, name="grants"), name="grants")
                grants.start_soon(self._follow, receive, threads, name="root")
                task_status.started()
                await stop.wait()
                grants.cancel_scope.cancel()
            await self._farewell()
            threads.cancel_scope.cancel()

    async def _watch(self, send: trio.MemorySendChannel[GrantChange]) -> None:
        await GrantWatcher(self._log, send.clone()).run()

    async def _follow(
        self, grants: trio.MemoryReceiveChannel[GrantChange], threads: trio.Nursery
    ) -> None:
        async for change in grants:
            match change:
                case ThreadGranted():
                    await self._begin(change, threads)
                case ThreadRevoked():
                    self._end(change.thread_id)

    async def _begin(self, granted: ThreadGranted, threads: trio.Nursery) -> None:
        before = self._threads.get(granted.thread_id)
        if before is not None and before.granted.joined_seq == granted.joined_seq:
            return
        self._end(granted.thread_id)
        running = self._threads[granted.thread_id] = Running(granted)
        threads.start_soon(self._hold, running, before, name=f"thread {granted.thread_id}")

    def _end(self, thread_id: str) -> None:
        running = self._threads.pop(thread_id, None)
        if running is not None:
            logger.info("thread ended", extra={"thread_id": thread_id})
            running.scope.cancel()

    async def _farewell(self) -> None:
        """Let every thread end its run; what is not done in time is cut."""
        with trio.move_on_after(self._policy.farewell_s) as scope:
            async with trio.open_nursery() as nursery:
                for running in list(self._threads.values()):
                    nursery.start_soon(self._dismiss, running)
        if scope.cancelled_caught:
            logger.error("threads did not end within %.0f s", self._policy.farewell_s)

    async def _dismiss(self, running: Running) -> None:
        if running.inbox is None:
            running.scope.cancel()
        else:
            try:
                await running.inbox.send(Drain())
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                running.scope.cancel()
        await running.gone.wait()

    # --- one thread ----------------------------------------------------------------------------

    async def _hold(self, running: Running, before: Running | None) -> None:
        """Keep a thread's actors alive until it leaves, crashes too often, or is cancelled."""
        thread_id = running.granted.thread_id
        ids = LogIds(thread_id)
        log_ids.set(ids)
        try:
            with running.scope:
                if before is not None:
                    await before.gone.wait()
                logger.info("thread started")
                life = partial(self._live, running, ids)
                if not await supervise(life, name=f"thread {thread_id}", park=True):
                    logger.critical("thread parked: it crashed too often; the others go on")
        finally:
            running.gone.set()

    async def _live(self, running: Running, ids: LogIds) -> None:
        """Run the four actors of a thread until ThreadActor leaves; all die together but two.

        QueryActor and ApprovalActor are restarted alone; when another crashes, the thread does.
        """
        thread_id, policy = running.granted.thread_id, self._policy
        inbox_send, inbox = trio.open_memory_channel[ThreadInbox](THREAD_INBOX)
        query_send, query = trio.open_memory_channel[QueryInbox](QUERY_INBOX)
        approvals_send, approvals = trio.open_memory_channel[ApprovalInbox](0)
        outbox_send, outbox = trio.open_memory_channel[OutboxInbox](0)

        async def run_query() -> None:
            await QueryActor(
                thread_id,
                query.clone(),
                inbox_send.clone(),
                self._harness,
                self._journal,
                cooperative_s=policy.cooperative_s,
                drain_s=policy.drain_s,
            ).run()

        async def run_approvals() -> None:
            await ApprovalActor(
                approvals.clone(), inbox_send.clone(), policy.own_principal_id
            ).run()

        thread = ThreadActor(
            running.granted,
            inbox,
            inbox_send.clone(),
            Children(query_send.clone(), approvals_send.clone(), outbox_send),
            self._log,
            self._journal,
            ids,
            own_principal_id=policy.own_principal_id,
            agent=self._agent,
            max_replay=policy.max_replay,
            new_id=self._new_id,
        )
        with inbox_send, query_send, query, approvals_send, approvals:
            async with trio.open_nursery() as nursery:
                start = nursery.start_soon
                start(partial(supervise, run_query, name=f"query {thread_id}"))
                start(partial(supervise, run_approvals, name=f"approvals {thread_id}"))
                start(OutboxActor(thread_id, outbox, inbox_send.clone(), self._log).run)

                async def run_thread(*, task_status: trio.TaskStatus[None]) -> None:
                    await thread.run(task_status=task_status)
                    nursery.cancel_scope.cancel()

                try:
                    await nursery.start(run_thread)
                    running.inbox = inbox_send
                    await trio.sleep_forever()
                finally:
                    running.begin_anew(ids.run_id)
