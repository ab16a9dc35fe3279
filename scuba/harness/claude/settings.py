"""How Claude Code is run: everything the harness is told, as one value."""

from pathlib import Path
from urllib.parse import quote

import msgspec

DISALLOWED_TOOLS = (
    "ListAgents",  # these two reach other sessions of the same person
    "SendMessage",
    "CronCreate",  # these start turns or work that nobody on the thread asked for
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "Workflow",
    "Monitor",
    "EnterWorktree",
    "ExitWorktree",
    "AskUserQuestion",  # these need an answer that is more than yes or no
    "EnterPlanMode",
    "ExitPlanMode",
)


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the program tells the harness. Paths are absolute."""

    cwd: Path
    """Where the agent works."""
    state_dir: Path
    """Below it, `claude/<thread>` keeps each thread's own configuration and transcripts."""
    model: str | None = None
    cli_path: Path | None = None
    """The `claude` to run; the SDK's own when None."""
    setting_sources: tuple[str, ...] = ("project",)
    system_prompt_append: str | None = None
    permission_mode: str = "default"
    env: dict[str, str] = {}
    """Added to what the CLI inherits; an empty value hides nothing (11.1)."""
    withheld: frozenset[str] = frozenset()
    """Variables the CLI must not inherit: where our own token stands."""
    use_login: bool = True
    """False: nothing of the person's login reaches the CLI; `env` holds all it needs."""
    disallowed_tools: tuple[str, ...] = DISALLOWED_TOOLS

    def thread_dir(self, thread_id: str) -> Path:
        """Return a thread's own directory."""
        name = quote(thread_id, safe="")  # whatever a server calls its threads
        return self.state_dir / "claude" / (f"%2E{name[1:]}" if name[:1] == "." else name)
