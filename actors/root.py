"""The root: what is granted runs, what is revoked stops at once, and a stop lets runs end."""

import logging
from functools import partial

import trio

from actors.census import Census, total
from actors.grants import GrantWatcher
from actors.messages import GrantChange, ThreadGranted, ThreadRevoked
from actors.places import Places
from actors.run_owners import RunOwners
from actors.supervise import supervise
from actors.thread_scope import Outside, Shared, ThreadScope

logger = logging.getLogger(__name__)


class Root:
    """Owns GrantWatcher, one scope for each thread, and the places that their sessions share."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        policy = outside.policy
        places = Places(working=policy.max_live, processes=policy.max_processes)
        self._shared = Shared(places, RunOwners())
        self._threads: dict[str, ThreadScope] = {}

    def statistics(self) -> Census:
        """Return what the bot holds: all threads, and the sessions they share places for."""
        scopes = [scope.statistics() for scope in self._threads.values()]
        return total([self._shared.places.statistics(), *scopes])

    async def run(
        self,
        stop: trio.Event,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until `stop`, then let every run end and be told, within `farewell_s`."""
        await self._adopt()
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

    async def _adopt(self) -> None:
        """Have the journal belong to the server's log, and say what of another one is put aside."""
        outside = self._outside
        for thread_id in await outside.journal.adopt(outside.log.log_epoch):
            extra = {"thread_id": thread_id}
            logger.warning("the log is another one: what was not settled is put aside", extra=extra)

    async def _watch(self, send: trio.MemorySendChannel[GrantChange]) -> None:
        await GrantWatcher(self._outside.log, send.clone()).run()

    async def _follow(
        self, grants: trio.MemoryReceiveChannel[GrantChange], threads: trio.Nursery
    ) -> None:
        async for change in grants:
            match change:
                case ThreadGranted():
                    self._begin(change, threads)
                case ThreadRevoked():
                    self._end(change.thread_id)

    def _begin(self, granted: ThreadGranted, threads: trio.Nursery) -> None:
        thread_id = granted.thread_id
        before = self._threads.get(thread_id)
        if before is not None and before.serves(granted):
            return
        self._end(thread_id)
        scope = self._threads[thread_id] = ThreadScope(granted, self._outside, self._shared)
        threads.start_soon(self._hold, scope, before, name=f"thread {thread_id}")

    def _end(self, thread_id: str) -> None:
        scope = self._threads.get(thread_id)
        if scope is not None and not scope.is_cancelled:
            logger.info("thread ended", extra={"thread_id": thread_id})
            scope.cancel()

    async def _hold(self, scope: ThreadScope, before: ThreadScope | None) -> None:
        """Keep a scope known until it is gone: so whatever has the thread next waits for it."""
        await scope.hold(before)
        thread_id = scope.granted.thread_id
        if scope.is_cancelled and self._threads.get(thread_id) is scope:
            del self._threads[thread_id]

    async def _farewell(self) -> None:
        farewell_s = self._outside.policy.farewell_s
        with trio.move_on_after(farewell_s) as deadline:
            async with trio.open_nursery() as nursery:
                for scope in self._threads.values():
                    nursery.start_soon(scope.dismiss)
        if deadline.cancelled_caught:
            logger.error("not every run ended within %.0f s", farewell_s)
