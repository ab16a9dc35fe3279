"""The `claude` section: how Claude Code is run, for every thread and for single ones."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from scuba.secret import Secret
from scuba.settings.base import NonEmpty, Section, Usd

PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
SettingSource = Literal["user", "project", "local"]
Effort = Literal["low", "medium", "high", "xhigh", "max"]
Tokens = Annotated[int, msgspec.Meta(ge=1024, le=1_000_000, extra={"unit": "tokens"})]
Steps = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Rule = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][\w.*:-]*(\(.+\))?\Z")]
"""A tool's name, and what of it in brackets. The CLI passes over a bad one without a word."""
ToolName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][\w.*:-]*\Z")]
SkillName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][\w.:-]*\Z")]


class McpServer(Section, frozen=True, kw_only=True):
    """One MCP server whose tools the agent gets."""

    type: Literal["stdio", "http", "sse"] = "stdio"
    """How it is spoken to: `stdio` starts `command`, the others call `url`."""
    command: NonEmpty | None = None
    """The program, for `stdio`."""
    args: tuple[str, ...] = ()
    """Its arguments. Everybody on the machine can read them: no secrets here."""
    env: dict[str, str] = {}
    """Environment variables for it."""
    url: NonEmpty | None = None
    """Where it is, for `http` and `sse`."""
    headers: dict[str, str] = {}
    """HTTP headers for it, such as `Authorization`."""

    def __repr__(self) -> str:
        """Return what may be shown: of `env` and `headers` only the names."""
        return f"McpServer({', '.join(f'{name}={value!r}' for name, value in _shown(self))})"


class AgentSection(Section, frozen=True, kw_only=True):
    """One sub-agent that the agent can give work to."""

    description: NonEmpty
    """When it is of use: what the agent reads of it."""
    prompt: NonEmpty
    """Its system prompt."""
    tools: tuple[ToolName, ...] | None = None
    """The only tools it has; all of the agent's when absent."""
    disallowed_tools: tuple[Rule, ...] = ()
    """Tools it has not."""
    model: NonEmpty | None = None
    """Its model; the agent's when absent."""
    effort: Effort | None = None
    """How much it thinks."""
    skills: tuple[SkillName, ...] | None = None
    """The skills it has from the start."""
    max_turns: Steps | None = None
    """Most steps of one task."""


class SandboxNetwork(Section, frozen=True, kw_only=True):
    """What commands in the sandbox reach."""

    allowed_domains: tuple[NonEmpty, ...] = ()
    """Domains they may reach without being asked for."""
    denied_domains: tuple[NonEmpty, ...] = ()
    """Domains they never reach."""
    allow_unix_sockets: tuple[NonEmpty, ...] = ()
    """Unix sockets they may open."""
    allow_local_binding: bool = False
    """They may listen on ports of this machine."""


class Sandbox(Section, frozen=True, kw_only=True):
    """Claude Code's sandbox for shell commands. Where there is none, no session starts."""

    enabled: bool = False
    """Run shell commands in it."""
    auto_allow_bash_if_sandboxed: bool = True
    """What runs in it needs nobody's yes."""
    allow_unsandboxed_commands: bool = True
    """The agent may ask for a command to run outside."""
    excluded_commands: tuple[NonEmpty, ...] = ()
    """Commands that always run outside."""
    network: SandboxNetwork = SandboxNetwork()


class Claude(Section, frozen=True, kw_only=True):
    """How Claude Code is run for every thread; `threads` has what is otherwise for single ones."""

    model: NonEmpty | None = None
    """The model, as `claude --model` takes it; Claude Code's own choice when absent."""
    fallback_model: NonEmpty | None = None
    """The model to take when that one is overloaded or not there; several with commas."""
    effort: Effort | None = None
    """How much the model thinks before it answers; its own default when absent."""
    thinking: Literal["adaptive", "disabled"] | Tokens | None = None
    """`adaptive`: as much as it needs; `disabled`: not at all; a number on older models."""
    cwd: NonEmpty | None = None
    """Where the tools work; the directory scuba was started in when absent."""
    cli_path: NonEmpty | None = None
    """The `claude` program to run; the one that comes with scuba when absent."""
    setting_sources: tuple[SettingSource, ...] = ("project",)
    """Which of Claude Code's own settings apply, `CLAUDE.md` and skills among them."""
    system_prompt_append: str | None = None
    """Added to Claude Code's system prompt. A conversation keeps what it began with."""
    permission_mode: PermissionMode = "default"
    """`default` asks on the thread; `bypassPermissions` never does, and needs
    `allowDangerousBypass`."""
    allow_dangerous_bypass: bool = False
    """Allow `bypassPermissions`: whoever may write on a thread can then run anything here."""
    allow: tuple[Rule, ...] = ()
    """Calls that need nobody's yes, as Claude Code's permission rules: `Bash(git status *)`."""
    ask: tuple[Rule, ...] = ()
    """Calls that always need a yes."""
    deny: tuple[Rule, ...] = ()
    """Calls that never run. This goes before `ask`, and that before `allow`."""
    disallowed_tools: tuple[Rule, ...] = ()
    """Tools that the model does not even see, beside those that scuba always takes away."""
    max_turns: Steps | None = None
    """Most steps of the agent for one message: it then stops and says so."""
    max_budget_usd: Usd | None = None
    """What one answer may cost, by Claude Code's own count: beyond it the agent is stopped and says
    so. A session is then opened anew for each answer, which takes half a second, and what runs in
    background ends with it."""
    skills: Literal["all"] | tuple[SkillName, ...] | None = None
    """The skills the model is told of, of those that `settingSources` and `plugins` bring: `"all"`,
    or their names; Claude Code's own choice when absent."""
    plugins: tuple[NonEmpty, ...] = ()
    """Folders of Claude Code plugins to load."""
    mcp_servers: dict[str, McpServer] = {}
    """MCP servers by the names that their tools bear: `mcp__NAME__TOOL`."""
    strict_mcp_config: bool = False
    """Only these MCP servers, none that the project or a plugin brings."""
    agents: dict[str, AgentSection] = {}
    """Sub-agents by name."""
    sandbox: Sandbox = Sandbox()
    env: dict[str, str] = {}
    """Environment variables for the CLI, over those it inherits. An empty value hides nothing."""

    def __repr__(self) -> str:
        """Return what may be shown: of `env` only the names."""
        return f"Claude({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what may be shown, for rich."""
        return _shown(self)

    def given(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values that may be secrets: environment variables and headers."""
        yield from self.env.items()
        for server in self.mcp_servers.values():
            yield from server.env.items()
            yield from server.headers.items()


def _shown(section: Section) -> list[tuple[str, Any]]:
    """Return the fields of a section, with secrets in place of what people gave as values."""
    shown = {name: getattr(section, name) for name in section.__struct_fields__}
    for name in {"env", "headers"} & shown.keys():
        shown[name] = {key: Secret(value) for key, value in shown[name].items()}
    return list(shown.items())
