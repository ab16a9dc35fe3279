"""What the pinned SDK does that we rest on; run on every bump of its version."""

import importlib.metadata
import inspect
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ToolPermissionContext,
    Transport,
)
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from scuba.harness.claude.options import MAX_BUFFER_BYTES, options_for
from scuba.harness.claude.settings import DISALLOWED_TOOLS, ClaudeSettings
from scuba.harness.claude.transport import Broken, command_line

REPOSITORY = Path(__file__).parents[4]
Json = dict[str, Any]


class Scripted(Transport):
    """Answers `initialize`, then yields what it is given; notes what is written and called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.written: list[Json] = []
        self.send, self._receive = trio.open_memory_channel[Json | Exception](10)

    async def connect(self) -> None:
        self.calls.append("connect")

    async def write(self, data: str) -> None:
        assert data.endswith("\n")
        message = json.loads(data)
        self.written.append(message)
        if message.get("request", {}).get("subtype") == "initialize":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self.send.send({"type": "control_response", "response": response})

    async def read_messages(self) -> AsyncIterator[Json]:
        self.calls.append("read_messages")
        try:
            async for message in self._receive:
                if isinstance(message, Exception):
                    raise message
                yield message
        finally:
            self.calls.append("reader ended")

    async def close(self) -> None:
        self.calls.append("close")

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        self.calls.append("end_input")


def ask(request_id: str = "r1", tool_use_id: str = "t1") -> Json:
    body = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "é"}}
    request = {**body, "tool_use_id": tool_use_id}
    return {"type": "control_request", "request_id": request_id, "request": request}


async def allow(_name: str, given: Json, _context: ToolPermissionContext) -> PermissionResult:
    return PermissionResultAllow(updated_input=given)


async def settle(transport: Scripted, count: int) -> None:
    with trio.fail_after(5):
        while len(transport.written) < count:  # noqa: ASYNC110  # the SDK has no event for it
            await trio.sleep(0.01)


def test_the_version_is_the_one_these_tests_were_written_for() -> None:
    assert importlib.metadata.version("claude-agent-sdk") == "0.2.189"
    assert '"claude-agent-sdk==0.2.189"' in (REPOSITORY / "pyproject.toml").read_text()


def test_the_argv_builder_is_where_we_look_for_it() -> None:
    assert list(inspect.signature(SubprocessCLITransport).parameters) == ["prompt", "options"]
    assert list(inspect.signature(SubprocessCLITransport._build_command).parameters) == ["self"]


def test_the_argv_holds_what_a_session_needs_and_no_secret() -> None:
    settings = ClaudeSettings(
        cwd=Path("/w"),
        state_dir=Path("/s"),
        model="m",
        system_prompt_append="be kind",
        env={"ANTHROPIC_API_KEY": "secret"},
    )
    options = options_for(
        settings,
        cli=Path("/bin/claude"),
        session_id="sid",
        resume=False,
        settings_file=Path("/s/login.json"),
        can_use_tool=allow,
    )
    argv = command_line(options)

    def value(flag: str) -> str:
        return argv[argv.index(flag) + 1]

    assert argv[0] == "/bin/claude"
    assert {"--include-partial-messages", "--replay-user-messages", "--verbose"} <= {*argv}
    assert {"--session-id=sid", "--setting-sources=project"} <= {*argv}
    assert value("--permission-prompt-tool") == "stdio"
    assert value("--input-format") == value("--output-format") == "stream-json"
    assert value("--append-system-prompt") == "be kind"
    assert value("--model") == "m"
    assert value("--settings") == "/s/login.json"
    assert value("--disallowedTools") == ",".join(DISALLOWED_TOOLS)
    assert "--system-prompt" not in argv
    assert "secret" not in " ".join(argv)
    assert options.max_buffer_size == MAX_BUFFER_BYTES == 64 << 20


def test_a_resumed_session_is_named_as_such() -> None:
    settings = ClaudeSettings(cwd=Path("/w"), state_dir=Path("/s"))
    argv = command_line(
        options_for(
            settings,
            cli=Path("/bin/claude"),
            session_id="sid",
            resume=True,
            settings_file=None,
            can_use_tool=allow,
        )
    )

    assert "--resume=sid" in argv
    assert not any(arg.startswith("--session-id") for arg in argv)


async def test_a_client_calls_its_transport_as_we_expect() -> None:
    """connect, read_messages; at the end the reader is cancelled before `close`."""
    transport = Scripted()
    async with ClaudeSDKClient(ClaudeAgentOptions(), transport=transport):
        assert transport.calls == ["connect", "read_messages"]

    assert transport.calls == ["connect", "read_messages", "reader ended", "close"]


async def test_a_question_is_answered_with_the_callback_and_its_id() -> None:
    transport, seen = Scripted(), []

    async def decide(name: str, given: Json, context: ToolPermissionContext) -> PermissionResult:
        seen.append((name, given, context.tool_use_id))
        return PermissionResultDeny(message="no")

    async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=decide), transport=transport):
        await transport.send.send(ask())
        await settle(transport, 2)

    assert seen == [("Bash", {"command": "é"}, "t1")]
    assert transport.written[1] == {
        "type": "control_response",
        "response": {
            "subtype": "success",
            "request_id": "r1",
            "response": {"behavior": "deny", "message": "no"},
        },
    }


async def test_questions_are_asked_at_once_and_a_withdrawn_one_is_cancelled() -> None:
    transport, waiting, cancelled = Scripted(), trio.Event(), trio.Event()

    async def decide(_name: str, _given: Json, context: ToolPermissionContext) -> PermissionResult:
        if context.tool_use_id == "t2":
            return PermissionResultDeny(message="no")
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=decide), transport=transport):
        with trio.fail_after(5):
            await transport.send.send(ask("r1", "t1"))
            await waiting.wait()
            await transport.send.send(ask("r2", "t2"))
            await settle(transport, 2)
            await transport.send.send({"type": "control_cancel_request", "request_id": "r1"})
            await cancelled.wait()

    assert [message["type"] for message in transport.written[1:]] == ["control_response"]


async def test_disconnecting_cancels_a_question_that_is_open() -> None:
    transport, waiting, cancelled = Scripted(), trio.Event(), trio.Event()

    async def decide(*_: object) -> PermissionResult:
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    with trio.fail_after(5):
        async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=decide), transport=transport):
            await transport.send.send(ask())
            await waiting.wait()
        await cancelled.wait()


async def test_an_error_of_the_reader_fails_what_is_pending_at_once() -> None:
    """Else a handshake with a dead CLI would wait for 60 s; hence `read_messages` always raises."""

    class Dead(Scripted):
        async def write(self, data: str) -> None:
            await self.send.send(ProcessError("gone", exit_code=0))

    with trio.fail_after(5), pytest.raises(ClaudeSDKError, match="gone"):
        await ClaudeSDKClient(ClaudeAgentOptions(), transport=Dead()).connect()


async def test_a_refused_handshake_is_a_plain_exception() -> None:
    """The SDK has no class for it, so the connection cannot catch it by name."""

    class Refusing(Scripted):
        async def write(self, data: str) -> None:
            request_id = json.loads(data)["request_id"]
            response = {"subtype": "error", "request_id": request_id, "error": "not today"}
            await self.send.send({"type": "control_response", "response": response})

    with trio.fail_after(5), pytest.raises(Exception, match="not today") as caught:
        await ClaudeSDKClient(ClaudeAgentOptions(), transport=Refusing()).connect()
    assert type(caught.value) is Exception


def test_what_the_transport_raises_is_the_sdks_own_error_too() -> None:
    assert issubclass(Broken, CLIConnectionError)
    assert issubclass(CLIConnectionError, ClaudeSDKError)
    assert issubclass(ProcessError, ClaudeSDKError)


def test_nothing_but_the_connection_loads_the_sdk() -> None:
    """Its import costs most of a second: the way in must not wait for it."""
    code = (
        "import sys, scuba.harness.claude.harness as h, scuba.harness.claude.session\n"
        "assert 'claude_agent_sdk' not in sys.modules, 'the SDK was loaded'\n"
        "h._connection_class()\n"
        "assert 'claude_agent_sdk' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPOSITORY, timeout=60)
