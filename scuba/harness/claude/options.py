"""The SDK's options for one session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from claude_agent_sdk import CanUseTool, ClaudeAgentOptions, PermissionMode, SettingSource
from claude_agent_sdk.types import McpServerConfig, SystemPromptPreset

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
    mcp_servers: Mapping[str, McpServerConfig] | None = None,
) -> ClaudeAgentOptions:
    """Return the options of a session that is new, or resumed under its id."""
    extra: dict[str, Any] = {"resume": session_id} if resume else {"session_id": session_id}
    return ClaudeAgentOptions(
        cwd=settings.cwd,
        cli_path=cli,
        model=settings.model,
        system_prompt=_prompt(settings.system_prompt_append),
        permission_mode=cast(PermissionMode, settings.permission_mode),
        disallowed_tools=list(settings.disallowed_tools),
        setting_sources=cast(list[SettingSource], list(settings.setting_sources)),
        settings=str(settings_file) if settings_file else None,
        can_use_tool=can_use_tool,
        mcp_servers=dict(mcp_servers or {}),
        include_partial_messages=True,
        max_buffer_size=MAX_BUFFER_BYTES,
        extra_args={"replay-user-messages": None},
        **extra,
    )


def _prompt(append: str | None) -> SystemPromptPreset:
    """Return the CLI's own system prompt; without one the SDK would send an empty prompt."""
    prompt: SystemPromptPreset = {"type": "preset", "preset": "claude_code"}
    if append:
        prompt["append"] = append
    return prompt
