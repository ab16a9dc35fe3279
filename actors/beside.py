"""What an agent does beside the prompt in hand: sub-agents, and answers to tasks' reports. Pure."""

import logging
from collections.abc import Callable, Iterator, Sequence

from actors.effects import HERE, Archive, Effect, Own, Release
from actors.events import Agent, Notice, RunStatus, Trigger
from actors.harness import Decision, PermissionAsked, Spoken, Woke
from actors.messages import Append, Decide, Opened
from actors.runs import Aside, MainRun, Run

logger = logging.getLogger(__name__)

LOST = "The session of this sub-agent is gone."
OVER = Decision(allowed=False, message="This sub-agent was stopped.")


class Beside:
    """Owns the runs that answer no prompt, until they have landed."""

    def __init__(self, agent: Agent, new_run_id: Callable[[], str]) -> None:
        self._agent, self._new_run_id = agent, new_run_id
        self.woken: MainRun | None = None
        """The turn that the agent began by itself, until that is over."""
        self.tasks = 0
        """Background tasks that run."""
        self._runs: dict[str, Run] = {}
        self._asides: dict[str, Aside] = {}
        """By the calls that began them."""

    def __iter__(self) -> Iterator[Run]:
        """Yield the runs, as they began."""
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        """Return how many runs have not landed."""
        return len(self._runs)

    def say(self, run: Run, said: Sequence[Spoken]) -> list[Effect]:
        """Have a run say something; know the sub-agents that are called in it."""
        effects: list[Effect] = []
        for effect in run.say(said):
            effects.append(effect)
            if isinstance(effect, Append):
                calls = (draft.opens for draft in effect.drafts if draft.opens is not None)
                effects += [self._called(run, call.tool_call_id) for call in calls]
        return effects

    def _called(self, run: Run, tool_call_id: str) -> Effect:
        aside = Aside(self._new_run_id(), tool_call_id, run)
        self._runs[aside.run_id] = self._asides[tool_call_id] = aside
        return Own(aside.run_id)

    def opened(self, message: Opened) -> list[Effect]:
        """A call has its subthread, or must do without."""
        aside = self._asides.get(message.tool_call_id)
        if aside is None:
            return []
        if message.refused is None:
            aside.thread_id = message.thread_id
            return [Own(aside.run_id, message.thread_id)]
        aside.refused = message.refused
        return [Own(aside.run_id, HERE), *aside.apologize()]

    def aside_said(self, tool_call_id: str, said: Sequence[Spoken]) -> list[Effect]:
        """A sub-agent says something; nobody decides for one that is over."""
        aside = self._asides.get(tool_call_id)
        if aside is not None and aside.live:
            return aside.begin(self._agent) + self.say(aside, said)
        logger.debug("%d words of a sub-agent that is over", len(said))
        asked = [item for item in said if isinstance(item, PermissionAsked)]
        return [Decide(tool_call_id=item.tool_call_id, decision=OVER) for item in asked]

    def aside_ended(
        self, tool_call_id: str, status: RunStatus, reason: str | None = None
    ) -> list[Effect]:
        """A sub-agent is done; one that never began leaves no run."""
        aside = self._asides.get(tool_call_id)
        if aside is None or aside.ended:
            return []
        if aside.begun:
            return aside.finish(status, reason)
        aside.ended = True
        return [Append((), aside.lane), *self.landed(aside.run_id)]

    def wake(self, woke: Woke) -> list[Effect]:
        """The agent answers the report of a task."""
        before = self.woken.end("completed", None) if self.woken else []
        run = self.woken = MainRun(self._new_run_id(), woke.prompt_id)
        self._runs[run.run_id] = run
        begin = run.begin(Trigger(task_id=woke.task_id), self._agent)
        return [*before, Own(run.run_id, HERE), *begin]

    def sleep(self, prompt_id: str) -> MainRun | None:
        """Return the run of a turn that the agent began by itself, which is over now."""
        woken = self.woken
        if woken is None or woken.prompt_id != prompt_id:
            return None
        self.woken = None
        return woken

    def end_all(self, reason: str | None, code: str | None = None) -> list[Effect]:
        """End everything, because the session is going, or gone; `code`: it failed."""
        effects: list[Effect] = []
        self.tasks = 0
        for aside in list(self._asides.values()):
            if code is not None and aside.begun:
                effects += aside.notice(Notice("error", code, reason or LOST))
            status: RunStatus = "interrupted" if code is None else "failed"
            effects += self.aside_ended(aside.tool_call_id, status, reason)
        woken, self.woken = self.woken, None
        if woken is None:
            return effects
        last = woken.end("interrupted", reason) if code is None else woken.fail(code, reason)
        return effects + last

    def landed(self, run_id: str) -> list[Effect]:
        """Forget a run that is on the server to its end, or given up."""
        run = self._runs.pop(run_id, None)
        if run is None:
            return []
        if not isinstance(run, Aside):
            return [Release(run_id)]
        del self._asides[run.tool_call_id]
        done = run.begun and run.thread_id is not None
        return [Release(run_id), *([Archive(run.thread_id or "", run_id)] if done else [])]
