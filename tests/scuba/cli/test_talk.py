"""The client commands as a person runs them, against a real server and a bot played by the test."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from scuba.wire import Envelope
from tests.kit.fake_server import FakeServer, fake_server

ROOT = Path(__file__).parents[3]
BUDGET_S = 60.0
Done = subprocess.CompletedProcess[bytes]


class Terminal:
    """Somebody at a shell whose environment names the server and their token."""

    def __init__(self, server: FakeServer, token: str, home: Path) -> None:
        self._command = [sys.executable, "-m", "scuba"]
        self._options: dict[str, Any] = {
            "check": False,
            "cwd": home,
            "env": {
                "PATH": os.environ["PATH"],
                "HOME": str(home),
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(ROOT),
                "SCUBA_URL": server.url,
                "SCUBA_TOKEN": token,
            },
        }

    def running(self, *args: str) -> dict[str, Any]:
        """Return how trio runs a command whose output is read as it comes."""
        return {"command": [*self._command, *args], "stdout": subprocess.PIPE, **self._options}

    async def run(self, *args: str, stdin: str = "") -> Done:
        """Run a command to its end."""
        with trio.fail_after(BUDGET_S):
            return await trio.run_process(
                [*self._command, *args],
                stdin=stdin.encode(),
                capture_stdout=True,
                capture_stderr=True,
                **self._options,
            )


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as server:
        yield server


@pytest.fixture
async def shell(server: FakeServer, tmp_path: Path) -> Terminal:
    return Terminal(server, server.user.token, tmp_path)


def part(kind: str, **fields: object) -> dict[str, Any]:
    return event("message_part", {"chunk": {"type": kind, **fields}})


def event(kind: str, payload: object) -> dict[str, Any]:
    return {"type": kind, "runId": "run_1", "payload": payload}


def has(events: list[Envelope], kind: str, word: str = "") -> bool:
    return any(one.type == kind and word in bytes(one.payload).decode() for one in events)


CALL = [
    part("tool-input-available", toolCallId="toolu_1", toolName="Bash", input={"command": "ls"}),
    part("tool-approval-request", approvalId="toolu_1", toolCallId="toolu_1"),
]


async def test_a_message_is_said_and_its_answer_followed_to_the_end(
    server: FakeServer, shell: Terminal
) -> None:
    """The answer streams in, its call is approved from a second terminal, and `say` ends with 0."""
    thread = await server.make_thread(server.bot)
    said: list[Done] = []
    approved: list[Done] = []

    async def say() -> None:
        said.append(await shell.run("say", thread, "list the files"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        events = await server.wait_for(
            thread, lambda events: has(events, "message_part", "text-end"), within_s=BUDGET_S
        )
        started = {"trigger": {"throughSeq": events[-1].seq}}
        begin = [event("run_started", started), part("text-start", id="1")]
        begin += [part("text-delta", id="1", delta="I look."), part("text-end", id="1")]
        await server.append(thread, [*begin, *CALL], server.bot)
        approved.append(await shell.run("approve", thread, "toolu_1", "--reason", "go on"))
        await server.wait_for(thread, lambda events: has(events, "tool_call_approval", "allow"))
        end = [part("tool-output-available", toolCallId="toolu_1", output="a.txt")]
        await server.append(
            thread, [*end, event("run_finished", {"status": "completed"})], server.bot
        )

    assert said[0].returncode == 0
    assert said[0].stdout.decode() == (
        "bot-research: I look.\n"
        'bot-research calls Bash {"command":"ls"}\n'
        "  waits for somebody's decision:\n"
        f"    scuba approve {thread} toolu_1\n"
        f"    scuba deny {thread} toolu_1\n"
        "[user-ada allows toolu_1: go on]\n"
        "  a.txt\n"
    )
    assert (approved[0].returncode, approved[0].stdout) == (0, b"allow: Bash toolu_1\n")
    message = [one for one in events if one.principal_id == server.user.id][-3:]
    assert len({one.run_id for one in message}) == 1
    assert [one.bare_left for one in message] == [2, 1, 0]


async def test_a_failed_answer_ends_with_1(server: FakeServer, shell: Terminal) -> None:
    thread = await server.make_thread(server.bot)
    said: list[Done] = []

    async def say() -> None:
        said.append(await shell.run("say", thread, "-", stdin="one\ntwo\n"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
        await server.wait_for(
            thread, lambda events: has(events, "message_part", "one\\ntwo"), within_s=BUDGET_S
        )
        run = [event("run_started", {}), event("run_finished", {"status": "failed", "reason": "x"})]
        await server.append(thread, run, server.bot)

    assert (said[0].returncode, said[0].stdout) == (1, b"[run failed: x]\n")


async def test_without_a_bot_nobody_is_waited_for(server: FakeServer, shell: Terminal) -> None:
    thread = await server.make_thread()
    done = await shell.run("say", thread, "anybody?")

    assert done.returncode == 0
    assert b"no bot takes part" in done.stderr


@pytest.mark.parametrize("fault", ["refused", "lost"])
async def test_a_message_survives_a_hiccup_and_is_said_once(
    server: FakeServer, shell: Terminal, fault: str
) -> None:
    """Field case 2.4 for a person's message."""
    thread = await server.make_thread()
    if fault == "refused":
        server.fail_next_append(503, "unavailable")
    else:
        server.drop_after_commit()
    done = await shell.run("say", thread, "once", "--no-wait")
    events = await server.events(thread)

    assert done.returncode == 0
    assert [bytes(one.payload).count(b"once") for one in events].count(1) == 1


async def test_a_call_that_nobody_knows_is_told_with_those_that_wait(
    server: FakeServer, shell: Terminal
) -> None:
    thread = await server.make_thread(server.bot)
    await server.append(thread, [event("run_started", {}), *CALL], server.bot)
    done = await shell.run("deny", thread, "toolu_2")

    assert done.returncode == 1
    assert b"has an unanswered call 'toolu_2'" in done.stderr
    assert b"calls that wait for a decision: toolu_1" in done.stderr


async def test_denial_and_changed_input_are_said_as_the_wire_says_them(
    server: FakeServer, shell: Terminal
) -> None:
    thread = await server.make_thread(server.bot)
    await server.append(thread, [event("run_started", {}), *CALL], server.bot)
    changed = await shell.run("approve", thread, "toolu_1", "--input", '{"command": "pwd"}')
    denied = await shell.run("deny", thread, "toolu_1", "--reason", "no")
    first, second = [
        bytes(one.payload)
        for one in await server.events(thread)
        if one.type == "tool_call_approval"
    ]

    assert (changed.returncode, denied.returncode) == (0, 0)
    assert first == (
        b'{"toolCallId":"toolu_1","decision":"allow","updatedInput":{"command":"pwd"}}'
    )
    assert second == b'{"toolCallId":"toolu_1","decision":"deny","reason":"no"}'


@pytest.mark.parametrize(
    ("given", "output"),
    [(("Postgres",), b'"Postgres"'), (('{"Which?": "it"}', "--json"), b'{"Which?":"it"}')],
)
async def test_an_answer_is_the_calls_result(
    server: FakeServer, shell: Terminal, given: tuple[str, ...], output: bytes
) -> None:
    thread = await server.make_thread(server.bot)
    await server.append(thread, [event("run_started", {}), *CALL], server.bot)
    done = await shell.run("answer", thread, "toolu_1", *given)
    (result,) = [one for one in await server.events(thread) if one.type == "tool_call_result"]

    assert done.returncode == 0
    assert bytes(result.payload) == b'{"toolCallId":"toolu_1","output":' + output + b"}"


async def test_the_run_in_hand_is_interrupted(server: FakeServer, shell: Terminal) -> None:
    thread = await server.make_thread(server.bot)
    nothing = await shell.run("interrupt", thread)
    await server.append(thread, [event("run_started", {})], server.bot)
    asked = await shell.run("interrupt", thread, "--reason", "enough")
    last = (await server.events(thread))[-1]

    assert (nothing.returncode, nothing.stderr) == (0, b"nothing is running\n")
    assert (asked.returncode, asked.stdout) == (0, b"asked run_1 to stop\n")
    assert (last.type, last.run_id) == ("run_interrupt_requested", "run_1")
    assert bytes(last.payload) == b'{"reason":"enough"}'


async def test_threads_are_listed(server: FakeServer, shell: Terminal) -> None:
    first = await server.make_thread(title="First")
    second = await server.make_thread(title="A \x1b[31mtitle")
    done = await shell.run("threads")

    assert done.returncode == 0
    assert f"{first}  owner      First\n" in done.stdout.decode()
    assert f"{second}  owner      A \\u001b[31mtitle\n" in done.stdout.decode()


async def test_a_thread_is_followed_from_its_newest_events_until_ctrl_c(
    server: FakeServer, shell: Terminal
) -> None:
    thread = await server.make_thread()
    await server.say(thread, "long ago")
    await server.say(thread, "just now")
    out = bytearray()
    async with trio.open_nursery() as nursery:
        tail: trio.Process = await nursery.start(
            partial(trio.run_process, **shell.running("tail", thread, "--last", "3"))
        )
        assert tail.stdout is not None
        with trio.fail_after(BUDGET_S):
            async for data in tail.stdout:
                if b"just now" in data and b"just now" not in out:
                    nursery.start_soon(server.say, thread, "live")
                is_over = b"live" not in out and b"live" in out + data
                out += data
                if is_over:  # once: a second one would meet the interpreter on its way out
                    tail.send_signal(signal.SIGINT)

    assert tail.returncode == 130
    assert out.decode() == "user-ada: just now\nuser-ada: live\n"


@pytest.mark.parametrize("args", [["threads"], ["tail", "thr_x"], ["say", "thr_x", "hello"]])
async def test_a_refused_token_ends_with_77(
    server: FakeServer, tmp_path: Path, args: list[str]
) -> None:
    shell = Terminal(server, "bubble_user_nobody-knows-this-one", tmp_path)
    done = await shell.run(*args)

    assert done.returncode == 77
    assert done.stderr.startswith(b"error: the server refused the token")
    assert b"nobody-knows" not in done.stdout + done.stderr


async def test_a_thread_that_is_not_there_is_told(server: FakeServer, shell: Terminal) -> None:
    done = await shell.run("tail", "thr_missing")

    assert done.returncode == 1
    assert done.stderr == b"error: the server refused: no such thread (thread_not_found)\n"
