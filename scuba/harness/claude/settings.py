"""How Claude Code is run: everything the harness is told, as one value."""

from pathlib import Path
from typing import Any, Literal
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
    "EnterPlanMode",  # these need an answer that is more than yes or no
    "ExitPlanMode",
)


SUBTHREAD = ".sub-"
"""What stands between the id of a thread and the rest of its subthread's."""


class ClaudeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the program tells the harness. Paths are absolute."""

    cwd: Path
    """Where the agent works."""
    state_dir: Path
    """Below it, `claude/<thread>` keeps each thread's own configuration and transcripts."""
    model: str | None = None
    fallback_model: str | None = None
    effort: str | None = None
    thinking: str | int | None = None
    """`adaptive`, `disabled`, or a number of tokens."""
    cli_path: Path | None = None
    """The `claude` to run; the SDK's own when None."""
    setting_sources: tuple[str, ...] = ("project",)
    system_prompt_append: str | None = None
    permission_mode: str = "default"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    """Permission rules; deny goes before ask, and that before allow."""
    max_turns: int | None = None
    max_budget_usd: float | None = None
    """Of one turn: with it, a session is closed after each."""
    skills: tuple[str, ...] | Literal["all"] | None = None
    plugins: tuple[Path, ...] = ()
    mcp_servers: dict[str, dict[str, Any]] = {}
    """As Claude Code writes them in `.mcp.json`."""
    strict_mcp_config: bool = False
    agents: dict[str, dict[str, Any]] = {}
    sandbox: dict[str, Any] = {}
    """As Claude Code writes both in its own settings."""
    env: dict[str, str] = {}
    """Added to what the CLI inherits; an empty value hides nothing (11.1)."""
    withheld: frozenset[str] = frozenset()
    """Variables the CLI must not inherit: where our own token stands."""
    use_login: bool = True
    """False: nothing of the person's login reaches the CLI; `env` holds all it needs."""
    disallowed_tools: tuple[str, ...] = DISALLOWED_TOOLS
    threads: dict[str, "ClaudeSettings"] = {}
    """What is otherwise for single threads."""

    def of_thread(self, thread_id: str) -> "ClaudeSettings":
        """Return how Claude Code is run for a thread; for a subthread, as for the one above it."""
        while thread_id not in self.threads and SUBTHREAD in thread_id:
            thread_id = thread_id.rpartition(SUBTHREAD)[0]
        return self.threads.get(thread_id, self)

    def session_settings(self) -> dict[str, Any]:
        """Return what of this Claude Code takes from a settings file."""
        rules = {"allow": self.allow, "ask": self.ask, "deny": self.deny}
        given = {kind: list(listed) for kind, listed in rules.items() if listed}
        told: dict[str, Any] = {"permissions": given} if given else {}
        if self.sandbox.get("enabled"):
            # Without this a machine that has no sandbox would run everything outside of it.
            told["sandbox"] = {**self.sandbox, "failIfUnavailable": True}
        return told

    def thread_dir(self, thread_id: str) -> Path:
        """Return a thread's own directory."""
        name = quote(thread_id, safe="")  # whatever a server calls its threads
        return self.state_dir / "claude" / (f"%2E{name[1:]}" if name[:1] == "." else name)
