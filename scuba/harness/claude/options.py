"""The SDK's options for one session."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import (
    AgentDefinition,
    CanUseTool,
    ClaudeAgentOptions,
    PermissionMode,
    SdkPluginConfig,
    SettingSource,
)
from claude_agent_sdk.types import (
    EffortLevel,
    McpServerConfig,
    SystemPromptPreset,
    ThinkingConfig,
)

from scuba.harness.claude.settings import ClaudeSettings

MAX_BUFFER_BYTES = 64 << 20


def options_for(
    settings: ClaudeSettings,
    *,
    cli: Path,
    session_id: str,
    resume: bool,
    settings_file: Path | None,
    can_use_tool: CanUseTool,
    mcp_file: Path | None = None,
    budget_usd: float = inf,
    mcp_servers: Mapping[str, McpServerConfig] | None = None,
) -> ClaudeAgentOptions:
    """Return the options of a session that is new, or resumed under its id.

    What may hold a secret stands in the two files, which only their owner reads: everybody can
    read a command line.
    """
    budget_usd = min(budget_usd, settings.max_budget_usd or inf)
    # Given beside the servers that run in this process; the CLI takes all it is given.
    more = {"mcp-config": str(mcp_file)} if mcp_file else {}
    extra: dict[str, Any] = {"resume": session_id} if resume else {"session_id": session_id}
    return ClaudeAgentOptions(
        cwd=settings.cwd,
        cli_path=cli,
        model=settings.model,
        fallback_model=settings.fallback_model,
        effort=cast(EffortLevel | None, settings.effort),
        thinking=_thinking(settings.thinking),
        system_prompt=_prompt(settings.system_prompt_append),
        permission_mode=cast(PermissionMode, settings.permission_mode),
        disallowed_tools=list(settings.disallowed_tools),
        setting_sources=cast(list[SettingSource], list(settings.setting_sources)),
        settings=str(settings_file) if settings_file else None,
        max_turns=settings.max_turns,
        max_budget_usd=None if budget_usd == inf else budget_usd,
        skills=settings.skills if isinstance(settings.skills, str | None) else [*settings.skills],
        plugins=[SdkPluginConfig(type="local", path=str(path)) for path in settings.plugins],
        strict_mcp_config=settings.strict_mcp_config,
        agents={name: AgentDefinition(**told) for name, told in settings.agents.items()} or None,
        can_use_tool=can_use_tool,
        mcp_servers=dict(mcp_servers or {}),
        include_partial_messages=True,
        forward_subagent_text=True,
        max_buffer_size=MAX_BUFFER_BYTES,
        extra_args={"replay-user-messages": None, **more},
        **extra,
    )


def for_client(options: ClaudeAgentOptions) -> ClaudeAgentOptions:
    """Return the options as the SDK's client is to see them, which does not start the CLI.

    Where a permission mode or skills let calls pass unasked it would warn us that they do.
    """
    skills = None if options.skills == "all" else options.skills
    return replace(options, permission_mode=None, skills=skills)


def _thinking(told: str | int | None) -> ThinkingConfig | None:
    if isinstance(told, int):
        return {"type": "enabled", "budget_tokens": told}
    return None if told is None else cast(ThinkingConfig, {"type": told})


def _prompt(append: str | None) -> SystemPromptPreset:
    """Return the CLI's own system prompt; without one the SDK would send an empty prompt."""
    prompt: SystemPromptPreset = {"type": "preset", "preset": "claude_code"}
    if append:
        prompt["append"] = append
    return prompt
