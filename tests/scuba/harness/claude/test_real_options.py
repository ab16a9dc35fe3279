"""The real CLI does what the settings say: rules, modes, servers, agents, limits."""

import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.harness import (
    AnySaid,
    Decision,
    PermissionAsked,
    TextSaid,
    Told,
    ToolReturned,
    TurnEnded,
    Used,
)
from actors.ports import SessionFailed
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.session import ClaudeSession
from scuba.harness.claude.settings import ClaudeSettings
from scuba.harness.scripted import API_KEY, MODEL, scripted_app
from scuba.listener import ListenerConfig, open_listener, serve_asgi
from tests.kit.claude_env import SWITCHES, bare_environment, place
from tests.kit.processes import assert_none_left, descendants
from tests.kit.tickets import TICKETS

__all__ = ["bare_environment", "place"]

pytestmark = pytest.mark.usefixtures("bare_environment")

TOUCH = '%%tool Bash {"command": "touch made"}\n%%say done'


class Model:
    """The scripted model, and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def run(self, *, task_status: trio.TaskStatus[str]) -> None:
        listeners = await open_listener("127.0.0.1", 0)
        config = ListenerConfig(body_bytes=33_554_432)
        app = partial(self.heard, scripted_app())
        async with trio.open_nursery() as nursery:
            [(host, port)] = await nursery.start(serve_asgi, app, listeners, config)
            task_status.started(f"http://{host}:{port}")

    async def heard(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()

        async def read() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            is_whole = message["type"] == "http.request" and not message.get("more_body")
            if is_whole and scope["path"] == "/v1/messages":
                self.requests.append(json.loads(body))
            return message

        await app(scope, read, send)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def settings(
    place: Path, model: Model, nursery: trio.Nursery
) -> AsyncIterator[ClaudeSettings]:
    """Settings for the scripted model; afterwards no process is left."""
    (place / "work").mkdir()
    before = descendants(os.getpid())
    base_url = await nursery.start(model.run)
    env = {
        **SWITCHES,
        "HOME": str(place),
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": API_KEY,
    }
    yield ClaudeSettings(
        cwd=place / "work", state_dir=place / "state", model=MODEL, env=env, use_login=False
    )
    await assert_none_left(descendants(os.getpid()) - before, within_s=0)


async def turn(session: ClaudeSession, text: str, prompt_id: str = "p") -> list[AnySaid]:
    """Return all that is said of a turn; whatever is asked is denied."""
    said: list[AnySaid] = []
    await session.prompt(prompt_id, text)
    with trio.fail_after(30):
        while not any(isinstance(item, TurnEnded) for item in said):
            new = await session.receive()
            for item in new:
                if isinstance(item, PermissionAsked):
                    session.decide(item.tool_call_id, Decision(allowed=False, message="no"))
            said += new
    return said


async def said_of(settings: ClaudeSettings, text: str = TOUCH) -> list[AnySaid]:
    async with ClaudeHarness(settings).open("thr_1", None) as session:
        return await turn(session, text)


def kinds(said: list[AnySaid]) -> set[str]:
    return {type(item).__name__ for item in said}


@pytest.mark.parametrize(
    ("told", "is_asked", "is_made"),
    [
        ({}, True, False),
        ({"allow": ("Bash(touch *)",)}, False, True),
        ({"allow": ("Bash",), "ask": ("Bash(touch *)",)}, True, False),
        ({"allow": ("Bash",), "deny": ("Bash(touch *)",)}, False, False),
        ({"permission_mode": "dontAsk"}, False, False),
        ({"permission_mode": "acceptEdits"}, False, True),
        ({"permission_mode": "bypassPermissions"}, False, True),
    ],
)
async def test_who_is_asked_is_as_the_rules_say(
    settings: ClaudeSettings, told: dict[str, Any], is_asked: bool, is_made: bool
) -> None:
    env = settings.env | {"IS_SANDBOX": "1"}  # the CLI refuses the last mode to root without it
    said = await said_of(msgspec.structs.replace(settings, env=env, **told))

    assert ("PermissionAsked" in kinds(said)) == is_asked
    assert (settings.cwd / "made").exists() == is_made
    assert said[-1] == TurnEnded(prompt_id="p", status="completed")


async def test_an_mcp_server_has_its_secrets_and_nobody_else_sees_them(
    settings: ClaudeSettings, place: Path
) -> None:
    """Field case 12.1: a command line is for everybody to read."""
    (place / "server.py").write_text(TICKETS)
    server = {
        "command": sys.executable,
        "args": [str(place / "server.py")],
        "env": {"TICKETS_KEY": "very-own-key"},
    }
    told = msgspec.structs.replace(
        settings, mcp_servers={"tickets": server}, allow=("mcp__tickets",)
    )
    async with ClaudeHarness(told).open("thr_1", None) as session:
        said = await turn(session, "%%tool mcp__tickets__find {}\n%%say done")
        clis = [process for process in descendants(os.getpid()) if "--mcp-config" in process.argv]

    (result,) = (item for item in said if isinstance(item, ToolReturned))
    assert result.output == "very-own-key"
    assert len(clis) == 1
    assert "very-own-key" not in " ".join(clis[0].argv)
    (file,) = (place / "state").rglob("mcp-servers.json")
    assert file.stat().st_mode & 0o077 == 0


async def test_what_the_model_is_to_know_reaches_it(
    settings: ClaudeSettings, model: Model, place: Path
) -> None:
    skill = settings.cwd / ".claude" / "skills" / "greeting" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greeting\ndescription: how to say hello here\n---\nhi")
    plugin = place / "plugin"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text('{"name": "manners"}')
    (plugin / "agents").mkdir()
    (plugin / "agents" / "butler.md").write_text(
        "---\nname: butler\ndescription: opens every door\n---\nYou serve."
    )
    told = msgspec.structs.replace(
        settings,
        effort="low",
        thinking="disabled",
        system_prompt_append="Speak of the weather.",
        skills=("greeting",),
        plugins=(plugin,),
        agents={"reviewer": {"description": "finds every mistake", "prompt": "You review."}},
        disallowed_tools=(*settings.disallowed_tools, "Write"),
    )
    await said_of(told, "hello")

    (asked,) = model.requests
    assert asked["output_config"] == {"effort": "low"}
    assert asked["thinking"] == {"type": "disabled"}
    assert "Write" not in {tool["name"] for tool in asked["tools"]}
    for words in (
        "Speak of the weather.",
        "how to say hello here",
        "opens every door",
        "finds every mistake",
    ):
        assert words in json.dumps(asked)


async def test_a_server_that_is_not_there_is_told_and_the_agent_works(
    settings: ClaudeSettings,
) -> None:
    gone = {"tickets": {"command": "/not/there"}}
    said = await said_of(msgspec.structs.replace(settings, mcp_servers=gone), "hello")

    assert [item.code for item in said if isinstance(item, Told)] == ["mcp_failed"]
    assert said[-1] == TurnEnded(prompt_id="p", status="completed")


async def test_a_long_conversation_says_that_it_is_summed_up(settings: ClaudeSettings) -> None:
    window = {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "20", "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    env = settings.env | window
    long = msgspec.structs.replace(settings, model="claude-haiku-4-5", env=env)
    said: list[AnySaid] = []
    async with ClaudeHarness(long).open("thr_1", None) as session:
        for number in range(4):
            said += await turn(session, f"%%say yes\n{'word ' * 30_000}", f"p{number}")

    codes = [item.code for item in said if isinstance(item, Told)]
    assert "compacting" in codes
    assert "compacted" in codes


async def test_an_agent_that_takes_too_many_steps_is_stopped(settings: ClaudeSettings) -> None:
    said = await said_of(msgspec.structs.replace(settings, max_turns=1, allow=("Bash",)))

    assert isinstance(said[-1], TurnEnded)
    assert (said[-1].status, said[-1].code) == ("failed", "max_turns")


async def test_a_budget_is_for_each_answer(settings: ClaudeSettings) -> None:
    """A process that has used it up takes nothing more; the next one begins to count anew."""
    tight = msgspec.structs.replace(settings, max_budget_usd=0.000_001)
    roomy = msgspec.structs.replace(settings, max_budget_usd=100)
    async with ClaudeHarness(tight).open("thr_1", None) as session:
        (*_, ended) = await turn(session, "one", "p1")
        resume = session.session_id
    async with ClaudeHarness(roomy).open("thr_1", resume) as session:
        said = await turn(session, "%%recall", "p2")

    assert isinstance(ended, TurnEnded)
    assert (ended.code, ended.closes) == ("budget", True)
    words = "".join(item.text for item in said if isinstance(item, TextSaid))
    assert words == "recall: one"
    assert said[-1] == TurnEnded(prompt_id="p2", status="completed", closes=True)


async def test_what_a_turn_used_is_told(settings: ClaudeSettings) -> None:
    """By the real CLI's own count; and a session may cost no more than its thread has left."""
    async with ClaudeHarness(settings).open("thr_1", None, budget_usd=1e-6) as session:
        said = await turn(session, "hello")

    used, ended = said[-2:]
    assert isinstance(used, Used)
    assert used.model == MODEL
    assert min(used.input_tokens, used.output_tokens, used.duration_s) > 0
    assert 0.001 < used.cost_usd < 1
    assert isinstance(ended, TurnEnded)
    assert (ended.code, ended.closes) == ("budget", True)


def path_without(program: str, folder: Path) -> str:
    """Return a search path on which everything is but one program."""
    folder.mkdir()
    for found in [*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()]:
        if found.name != program and not (folder / found.name).is_symlink():
            (folder / found.name).symlink_to(found)
    return str(folder)


async def test_without_the_sandbox_that_is_wanted_nothing_runs(
    settings: ClaudeSettings, place: Path
) -> None:
    env = settings.env | {"PATH": path_without("bwrap", place / "bin")}
    told = msgspec.structs.replace(settings, sandbox={"enabled": True}, env=env)
    with pytest.raises(SessionFailed) as failed:
        await said_of(told)

    assert failed.value.code == "no_sandbox"
    assert not (settings.cwd / "made").exists()


async def test_each_thread_is_run_as_it_is_told(settings: ClaudeSettings, model: Model) -> None:
    other = msgspec.structs.replace(settings, effort="max")
    harness = ClaudeHarness(msgspec.structs.replace(settings, threads={"thr_2": other}))
    for thread_id in ("thr_1", "thr_2"):
        async with harness.open(thread_id, None) as session:
            await turn(session, "hello")

    assert [asked["output_config"]["effort"] for asked in model.requests] == ["high", "max"]
