"""What a person writes about Claude Code reaches its harness, key by key."""

from pathlib import Path

import msgspec

from scuba.claude_settings import claude_settings
from scuba.harness.claude.settings import DISALLOWED_TOOLS, ClaudeSettings
from scuba.settings import AgentSection, Bubble, Claude, McpServer, Sandbox, Settings

BUBBLE = Bubble(url="https://b.example", principal_id="bot-a", token="token-for-tests")
FULL = Claude(
    model="m",
    fallback_model="n",
    effort="low",
    thinking=2048,
    cwd="/w",
    cli_path="/bin/claude",
    setting_sources=("user",),
    system_prompt_append="be kind",
    permission_mode="plan",
    allow=("Read",),
    ask=("Bash",),
    deny=("Write",),
    disallowed_tools=("WebFetch",),
    max_turns=3,
    max_budget_usd=0.5,
    skills=("hello",),
    plugins=("/p",),
    mcp_servers={"a": McpServer(type="http", url="https://x", headers={"H": "v"})},
    strict_mcp_config=True,
    agents={"rev": AgentSection(description="d", prompt="p", max_turns=2)},
    sandbox=Sandbox(enabled=True, excluded_commands=("docker",)),
    env={"A": "1"},
)


def harness(**sections: object) -> ClaudeSettings:
    settings = msgspec.structs.replace(Settings(bubble=BUBBLE), **sections)
    return claude_settings(settings, Path("/s"), frozenset({"BOT_TOKEN"}))


def test_every_key_reaches_the_harness() -> None:
    told, untold = harness(claude=FULL), harness()
    same = {
        name
        for name in set(Claude.__struct_fields__) - {"allow_dangerous_bypass"}
        if getattr(told, name) == getattr(untold, name)
    }

    assert same == set()
    assert told.disallowed_tools == (*DISALLOWED_TOOLS, "WebFetch")
    assert told.mcp_servers == {
        "a": {"type": "http", "args": [], "env": {}, "url": "https://x", "headers": {"H": "v"}}
    }
    assert told.agents == {
        "rev": {"description": "d", "prompt": "p", "disallowedTools": [], "maxTurns": 2}
    }


def test_a_sandbox_that_is_wanted_is_never_done_without() -> None:
    assert harness(claude=FULL).session_settings()["sandbox"] == {
        "enabled": True,
        "autoAllowBashIfSandboxed": True,
        "allowUnsandboxedCommands": True,
        "excludedCommands": ["docker"],
        "failIfUnavailable": True,
        "network": {
            "allowedDomains": [],
            "deniedDomains": [],
            "allowUnixSockets": [],
            "allowLocalBinding": False,
        },
    }
    assert harness().session_settings() == {}


def test_each_thread_has_its_own() -> None:
    told = harness(claude=Claude(model="m"), threads={"thr_1": Claude(model="other", cwd="/w")})

    assert told.of_thread("thr_1").model == "other"
    assert told.of_thread("thr_1").cwd == Path("/w")
    assert told.of_thread("thr_1").withheld == told.withheld == {"BOT_TOKEN"}
    assert told.of_thread("thr_2").model == "m"
    assert told.of_thread("thr_1.sub-paets-r42.sub-g81px-3av").model == "other"
    assert told.of_thread("thr_2.sub-paets-r42").model == "m"
