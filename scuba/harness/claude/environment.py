"""The environment of a CLI: the person's own, without a parent agent's markers and our secrets."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.proc import TAG

PARENT_MARKERS = frozenset(
    {
        "AI_AGENT",
        "CODEX_CI",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CURSOR_AGENT",
        "GEMINI_CLI",
        "OPENCODE",
        "TRACEPARENT",
        "TRACESTATE",
    }
)
"""Variables by which other agents tell their children that they are inside a session."""
PARENT_PREFIXES = ("CLAUDECODE", "CLAUDE_")
"""Claude Code has a thousand of its own; all go but those a person sets for every session."""
KEPT = frozenset(
    {
        "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
        "CLAUDE_CODE_CERT_STORE",
        "CLAUDE_CODE_CLIENT_CERT",
        "CLAUDE_CODE_CLIENT_KEY",
        "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
        "CLAUDE_CODE_DISABLE_1M_CONTEXT",
        "CLAUDE_CODE_DISABLE_ADAPTIVE_THINKING",
        "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
        "CLAUDE_CODE_DISABLE_THINKING",
        "CLAUDE_CODE_EFFORT_LEVEL",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_OAUTH_REFRESH_TOKEN",
        "CLAUDE_CODE_OAUTH_SCOPES",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_PROXY_RESOLVES_HOSTS",
        "CLAUDE_CODE_SHELL",
        "CLAUDE_CODE_SHELL_PREFIX",
        "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
        "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
        "CLAUDE_CODE_SKIP_MANTLE_AUTH",
        "CLAUDE_CODE_SKIP_VERTEX_AUTH",
        "CLAUDE_CODE_SUBAGENT_MODEL",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_MANTLE",
        "CLAUDE_CODE_USE_POWERSHELL_TOOL",
        "CLAUDE_CODE_USE_VERTEX",
    }
)
"""What a person may set: how to log in, which service, how much to think."""
LOGIN_PREFIXES = (
    "ANTHROPIC_",
    "AWS_",
    "CLAUDE_CODE_OAUTH_",
    "CLAUDE_CODE_USE_",
    "CLAUDE_CODE_CLIENT_",
    "CLOUD_ML_",
)
"""What reaches a model service; not inherited when the login is not to be used."""
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_BUG_COMMAND": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_GROWTHBOOK": "1",
    "DISABLE_INSTALLATION_CHECKS": "1",
    "DISABLE_TELEMETRY": "1",
}
"""No telemetry, no updates, no downloads: a daemon's CLI talks to the model and nobody else."""
PROTOCOL = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",  # a turn has ended when the CLI is idle
}


def is_marker(name: str) -> bool:
    """Return whether a variable belongs to an agent session we may have been started from."""
    if name in KEPT:
        return False
    return name in PARENT_MARKERS or name.startswith(PARENT_PREFIXES)


def scrub_environment(names: Iterable[str]) -> dict[str, str]:
    """Remove variables from this process for good, and return what they held.

    Called once at the program's start, so that no child of any kind can inherit our token.
    """
    return {name: os.environ.pop(name) for name in names if name in os.environ}


def child_environment(
    settings: ClaudeSettings,
    inherited: Mapping[str, str],
    *,
    from_person: Mapping[str, str],
    config_dir: Path,
    storage_dir: str,
    temp_dir: Path,
    tag: str,
) -> dict[str, str]:
    """Return the whole environment of one CLI.

    Later wins: what we inherit, the person's settings (`from_person`), ours, and what the bridge
    rests on. An empty value never hides one that is there (11.1).
    """
    env = {
        name: value
        for name, value in inherited.items()
        if not is_marker(name)
        and name not in settings.withheld
        and (settings.use_login or not name.startswith(LOGIN_PREFIXES))
    }
    for layer in (from_person, settings.env):
        for name, value in layer.items():
            if name not in settings.withheld and (value.strip() or not env.get(name, "").strip()):
                env[name] = value
    return {
        **env,
        **QUIET,
        **PROTOCOL,
        "CLAUDE_CONFIG_DIR": str(config_dir),
        "CLAUDE_SECURESTORAGE_CONFIG_DIR": storage_dir,
        "PWD": str(settings.cwd),
        "TMPDIR": str(temp_dir),
        "XDG_RUNTIME_DIR": str(temp_dir),
        TAG: tag,
    }
