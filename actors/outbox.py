"""OutboxActor: the way out of a thread and of its subthreads, a lane for each.

Order is kept within a lane: a subthread that is held up never holds its parent.
"""

import random
from collections.abc import Callable

import trio

from actors.census import Census, total
from actors.lane import Lane
from actors.messages import OutboxInbox, ThreadInbox
from actors.ports import Journal, ThreadLog


class OutboxActor:
    """Owns the lanes, and closes both channel ends when it leaves."""

    def __init__(
        self,
        thread_id: str,
        inbox: trio.MemoryReceiveChannel[OutboxInbox],
        outbox: trio.MemorySendChannel[ThreadInbox],
        log: ThreadLog,
        journal: Journal,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._thread_id, self._log, self._jitter = thread_id, log, jitter
        self._journal = journal
        self._inbox, self._outbox = inbox, outbox
        self._lanes: dict[str | None, Lane] = {}
        self._nursery: trio.Nursery

    @property
    def chars(self) -> int:
        """How much waits in memory, beside what is in hand."""
        return sum(lane.chars for lane in self._lanes.values())

    def statistics(self) -> Census:
        """Return what is held of the way out."""
        return total(lane.statistics() for lane in self._lanes.values())

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until every sender has closed and all is appended, or until cancelled."""
        async with self._inbox, self._outbox, trio.open_nursery() as self._nursery:
            self._lane(None).open(self._thread_id)
            task_status.started()
            async for message in self._inbox:
                if message.drafts:
                    await self._lane(message.lane).add(message.drafts)
                else:
                    self._lane(message.lane).close()
            for lane in self._lanes.values():
                lane.close()

    def _lane(self, call_id: str | None) -> Lane:
        lane = self._lanes.get(call_id)
        if lane is None:
            lane = Lane(self._log, self._journal, self._outbox, self._placed, self._jitter)
            self._lanes[call_id] = lane
            self._nursery.start_soon(self._hold, call_id, lane, name=f"lane {self._thread_id}")
        return lane

    def _placed(self, call_id: str, thread_id: str, parent_id: str) -> None:
        self._lane(call_id).open(thread_id, parent_id)

    async def _hold(self, call_id: str | None, lane: Lane) -> None:
        await lane.run()
        del self._lanes[call_id]
