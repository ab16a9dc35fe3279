"""What a bot is told: one frozen struct, decoded once, every mistake reported at once.

`sections` and `claude` hold the structs, whose docstrings are what people read of each key;
`loading` reads a file; `checks` finds what a type cannot tell; `token` fetches the token.
"""

from scuba.settings.base import Level, NonEmpty, PrincipalId, Section, TokenRef, TokenSource
from scuba.settings.checks import DANGEROUS
from scuba.settings.claude import AgentSection, Claude, McpServer, PermissionMode, Sandbox
from scuba.settings.loading import (
    CONFIG_NAME,
    bot_state_dir,
    config_error,
    load_settings,
    local_state_dir,
    read_config,
)
from scuba.settings.sections import Bubble, LocalOptions, Logger, Settings
from scuba.settings.token import resolve_token

__all__ = [
    "CONFIG_NAME",
    "DANGEROUS",
    "AgentSection",
    "Bubble",
    "Claude",
    "Level",
    "LocalOptions",
    "Logger",
    "McpServer",
    "NonEmpty",
    "PermissionMode",
    "PrincipalId",
    "Sandbox",
    "Section",
    "Settings",
    "TokenRef",
    "TokenSource",
    "bot_state_dir",
    "config_error",
    "load_settings",
    "local_state_dir",
    "read_config",
    "resolve_token",
]
