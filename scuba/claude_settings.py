"""From what a person wrote about Claude Code to what its harness is told."""

from pathlib import Path
from typing import Any

import msgspec

from scuba.harness.claude.settings import DISALLOWED_TOOLS, ClaudeSettings
from scuba.settings import Claude, Section, Settings


def claude_settings(
    settings: Settings, state_dir: Path, withheld: frozenset[str]
) -> ClaudeSettings:
    """Return how Claude Code is run, on every thread and on those that are told otherwise.

    `withheld` are the environment variables that no CLI may see.
    """
    threads = {
        thread_id: _of(claude, state_dir, withheld)
        for thread_id, claude in settings.threads.items()
    }
    every = _of(settings.claude, state_dir, withheld)
    return msgspec.structs.replace(every, threads=threads)


def _of(claude: Claude, state_dir: Path, withheld: frozenset[str]) -> ClaudeSettings:
    return ClaudeSettings(
        cwd=Path(claude.cwd) if claude.cwd else Path.cwd(),
        state_dir=state_dir,
        model=claude.model,
        fallback_model=claude.fallback_model,
        effort=claude.effort,
        thinking=claude.thinking,
        cli_path=Path(claude.cli_path) if claude.cli_path else None,
        setting_sources=claude.setting_sources,
        system_prompt_append=claude.system_prompt_append,
        permission_mode=claude.permission_mode,
        allow=claude.allow,
        ask=claude.ask,
        deny=claude.deny,
        max_turns=claude.max_turns,
        max_budget_usd=claude.max_budget_usd,
        skills=claude.skills,
        plugins=tuple(map(Path, claude.plugins)),
        mcp_servers={name: _written(server) for name, server in claude.mcp_servers.items()},
        strict_mcp_config=claude.strict_mcp_config,
        agents={name: _written(agent) for name, agent in claude.agents.items()},
        sandbox=_written(claude.sandbox),
        env=claude.env,
        withheld=withheld,
        disallowed_tools=(*DISALLOWED_TOOLS, *claude.disallowed_tools),
    )


def _written(section: Section) -> dict[str, Any]:
    """Return a section as Claude Code writes it: by the same names, without what was left open."""
    told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(section))
    return {name: value for name, value in told.items() if value is not None}
