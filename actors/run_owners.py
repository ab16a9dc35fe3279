"""Whose runs are on which subthreads: a decision made there reaches the agent that waits for it.

Shared by the threads of one bot, like `actors.places`. A run is owned by the thread whose session
works on it; its events are on a thread below.
"""

import trio

from actors.events import Event
from actors.messages import RunControl, ThreadInbox


class RunOwners:
    """Knows the runs of sub-agents from before they begin until they have landed."""

    def __init__(self) -> None:
        self._inboxes: dict[str, trio.MemorySendChannel[ThreadInbox]] = {}
        self._threads: dict[str, str] = {}

    def __contains__(self, run_id: object) -> bool:
        """Return whether an agent works on the run now."""
        return run_id in self._inboxes

    def __len__(self) -> int:
        """Return how many runs are owned."""
        return len(self._inboxes)

    def own(
        self, run_id: str, thread_id: str | None, inbox: trio.MemorySendChannel[ThreadInbox]
    ) -> None:
        """Know a run, and (once it is known) the thread on which it is."""
        self._inboxes[run_id] = inbox
        if thread_id is not None:
            self._threads[run_id] = thread_id

    def release(self, run_id: str) -> None:
        """Forget a run; again is well."""
        self._inboxes.pop(run_id, None)
        self._threads.pop(run_id, None)

    def left_by(self, inbox: trio.MemorySendChannel[ThreadInbox]) -> list[tuple[str, str]]:
        """Forget all runs of an owner that is gone; return thread and id of those that began."""
        gone = [run_id for run_id, owner in self._inboxes.items() if owner is inbox]
        began = [(self._threads[run_id], run_id) for run_id in gone if run_id in self._threads]
        for run_id in gone:
            self.release(run_id)
        return began

    async def forward(
        self, thread_id: str, event: Event, me: trio.MemorySendChannel[ThreadInbox]
    ) -> bool:
        """Pass on what somebody said on that thread about a run there; False: of nobody but `me`.

        May wait for the owner, which never waits for a thread below it.
        """
        inbox = self._inboxes.get(event.run_id or "")
        if inbox in (None, me) or self._threads.get(event.run_id or "") != thread_id:
            return False
        assert inbox is not None
        try:
            await inbox.send(RunControl(event))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True
