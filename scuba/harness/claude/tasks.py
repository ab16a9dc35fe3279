"""Sub-agents and other background tasks, by the names the CLI has for them. No I/O."""

from typing import Literal, cast

from actors.harness import AsideBegan, AsideEnded, TasksRunning
from scuba.harness.claude.blocks import Blocks
from scuba.harness.claude.frames import System

DELEGATING = frozenset({"Agent", "Task"})
"""Tools that hand a task to a sub-agent; the second is the older name of the first."""
Status = Literal["completed", "interrupted", "failed"]
STATUSES: dict[object, Status] = {"completed": "completed", "failed": "failed"}
"""Of a notification; whatever else it says, somebody stopped the task."""


def delegated(tool_name: str, input_: object) -> str | None:
    """Return what a call hands to a sub-agent, in a few words; None when it does not."""
    if tool_name not in DELEGATING:
        return None
    given = cast(dict[str, object], input_ if isinstance(input_, dict) else {})
    named = (given.get(key) for key in ("description", "subagent_type"))
    return next((text for text in named if isinstance(text, str) and text.strip()), tool_name)


class Tasks:
    """The tasks of one session. A sub-agent's words are kept apart by the call that began it."""

    def __init__(self) -> None:
        self.running = 0
        """Background tasks that run now; what runs within the turn is none."""
        self.reported: str | None = None
        """The task that reported last, until the agent has answered that."""
        self._calls: dict[str, str] = {}
        self._background: set[str] = set()
        self._blocks: dict[str, Blocks] = {}

    def began(self, call_id: str) -> None:
        """Know a call that hands a task to a sub-agent."""
        self._blocks.setdefault(call_id, Blocks())

    def blocks(self, call_id: str) -> Blocks:
        """Return the blocks of a sub-agent's message in hand; new ones of one that is over."""
        return self._blocks.get(call_id) or Blocks()

    def call_of(self, agent_id: str | None) -> str | None:
        """Return the call that began a sub-agent; None for the main agent."""
        return None if agent_id is None else self._calls.get(agent_id)

    def task_of(self, call_id: str) -> str | None:
        """Return the task that a call began, while it is not over."""
        return next((task for task, call in self._calls.items() if call == call_id), None)

    def started(self, frame: System) -> AsideBegan | None:
        """A call began a task; return the beginning of its sub-agent, if it is one."""
        task_id, call_id = frame.task_id, frame.tool_use_id
        if not isinstance(task_id, str) or not isinstance(call_id, str):
            return None
        self._calls[task_id] = call_id
        if frame.is_backgrounded is True:
            self._background.add(call_id)
        return AsideBegan(call_id) if call_id in self._blocks else None

    def notified(self, frame: System) -> AsideEnded | None:
        """A task is over; return the end of its sub-agent, if it was one."""
        if not isinstance(frame.task_id, str):
            return None
        call_id = self._calls.pop(frame.task_id, None) or frame.tool_use_id
        if call_id in self._background or not isinstance(call_id, str):
            self.reported = frame.task_id
        if not isinstance(call_id, str):
            return None
        self._background.discard(call_id)
        return self._end(call_id, STATUSES.get(frame.status, "interrupted"))

    def changed(self, frame: System) -> TasksRunning | None:
        """The set of background tasks is another one; return how many, if that is news."""
        tasks: object = frame.tasks
        count = len(cast(list[object], tasks)) if isinstance(tasks, list) else 0
        before, self.running = self.running, count
        return TasksRunning(self.running) if self.running != before else None

    def returned(self, call_id: str, *, is_error: bool) -> AsideEnded | None:
        """A call has its result: with that its sub-agent ends, unless it works in background."""
        if call_id in self._background:
            return None
        return self._end(call_id, "failed" if is_error else "completed")

    def _end(self, call_id: str, status: Status) -> AsideEnded | None:
        known = self._blocks.pop(call_id, None)
        return AsideEnded(call_id, status) if known is not None else None
