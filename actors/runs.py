"""The runs that a conversation has in hand, and what each of them makes happen. Pure."""

from collections.abc import Sequence

from actors.effects import Effect
from actors.events import (
    Agent,
    Draft,
    Notice,
    Parent,
    RunStartedPayload,
    RunStatus,
    Trigger,
)
from actors.harness import PermissionAsked, Spoken, ToolReturned
from actors.messages import Append, ApprovalAsked, RunEnded
from actors.outbound import Outbound


class Run:
    """A run of ours, from `run_started` until its `run_finished` has landed."""

    def __init__(self, run_id: str, lane: str | None = None) -> None:
        self.run_id, self.lane = run_id, lane
        """`lane`: the call on whose subthread it is; None for the thread itself."""
        self.outbound = Outbound(run_id)
        self.stopped: str | None = None
        """Why it was asked to stop."""
        self.ended = False
        """Its `run_finished` is on the way out."""

    @property
    def live(self) -> bool:
        """Whether it still may say something."""
        return not self.ended

    @property
    def is_here(self) -> bool:
        """Whether it is on the thread itself."""
        return True

    def append(self, drafts: Sequence[Draft]) -> list[Effect]:
        """Return what has drafts of it leave."""
        return [Append(tuple(drafts), self.lane)] if drafts else []

    def notice(self, notice: Notice) -> list[Effect]:
        """Say something about the work; nothing once it has ended."""
        return self.append(self.outbound.notice(notice))

    def say(self, said: Sequence[Spoken]) -> list[Effect]:
        """Say what the agent says, and have asked what it asks."""
        if self.stopped is not None:
            said = [item for item in said if not _is_echo_of_a_stop(item)]
        effects = self.append(self.outbound.translate(said))
        if self.stopped is None:
            effects += [
                ApprovalAsked(
                    run_id=self.run_id,
                    tool_call_id=item.tool_call_id,
                    tool_name=item.tool_name,
                    is_question=item.is_question,
                )
                for item in said
                if isinstance(item, PermissionAsked)
            ]
        return effects

    def finish(
        self, status: RunStatus, reason: str | None = None, through_seq: int | None = None
    ) -> list[Effect]:
        """End it: nothing of it is asked for any more."""
        self.ended = True
        drafts = self.outbound.finish(status, reason, through_seq)
        return [*self.append(drafts), RunEnded(self.run_id)]


class MainRun(Run):
    """What the agent itself does: a turn, begun by a prompt or by a task's report."""

    def __init__(self, run_id: str, prompt_id: str, through_seq: int | None = None) -> None:
        super().__init__(run_id)
        self.prompt_id, self.through_seq = prompt_id, through_seq
        """`through_seq` None: it answers no input."""
        self.cut = False
        """It was our own end that stopped it: the next start decides what becomes of it."""

    def begin(self, trigger: Trigger | None, agent: Agent) -> list[Effect]:
        """Say that it begins."""
        started = RunStartedPayload(trigger=trigger, agent=agent)
        return self.append([Draft("run_started", self.run_id, started)])

    def end(self, status: RunStatus, reason: str | None, tasks: int = 0) -> list[Effect]:
        """End it as it ended, or as it was stopped; `tasks` still run in background."""
        if self.cut and status == "completed":
            self.cut = False  # it came to its end all the same
        elif self.stopped is not None:
            status, reason = "interrupted", self.stopped
        told = self.notice(_still_running(tasks)) if tasks else []
        return told + self.finish(status, reason, self.through_seq)

    def fail(self, code: str | None, text: str | None, tasks: int = 0) -> list[Effect]:
        """End a run that went wrong, and say why where people see it."""
        if self.stopped is not None:
            return self.end("interrupted", None, tasks)
        why = text or "The agent stopped unexpectedly. Send a message to try again."
        notice = Notice("error", code or "agent_failed", why)
        return self.notice(notice) + self.end("failed", why, tasks)


class Aside(Run):
    """What a sub-agent does. It begins with the first thing that is heard of it, or never."""

    def __init__(self, run_id: str, tool_call_id: str, parent: Run) -> None:
        super().__init__(run_id, tool_call_id)
        self.tool_call_id = tool_call_id
        self._parent = Parent(parent.run_id, tool_call_id)
        self.begun = False
        self.thread_id: str | None = None
        """Its subthread, once it is known."""
        self.refused: str | None = None
        """Why it has no subthread, if it has none."""

    @property
    def is_here(self) -> bool:
        """Whether it has no subthread."""
        return self.refused is not None

    def begin(self, agent: Agent) -> list[Effect]:
        """Say that it begins, once."""
        if self.begun:
            return []
        self.begun = True
        started = RunStartedPayload(parent=self._parent, agent=agent)
        return self.append([Draft("run_started", self.run_id, started)]) + self.apologize()

    def apologize(self) -> list[Effect]:
        """Say why it is not on a subthread, once both is known."""
        if not self.begun or self.refused is None:
            return []
        text = f"A thread for this sub-agent could not be opened ({self.refused}); it works here."
        return self.notice(Notice("warning", "no_subthread", text))


def _still_running(tasks: int) -> Notice:
    what = "A background task still runs" if tasks == 1 else f"{tasks} background tasks still run"
    return Notice("info", "still_running", f"{what}; what comes of it is told here.")


def _is_echo_of_a_stop(item: Spoken) -> bool:
    """Tell whether a call failed because it was stopped: what a harness tells the model of it.

    People read at the end of the run that it was interrupted (field case 4.3).
    """
    return isinstance(item, ToolReturned) and item.is_error
