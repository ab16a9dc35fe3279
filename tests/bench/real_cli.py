"""The real CLI with the scripted model: through scuba, beside the same CLI on a plain pipe."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from scuba import wire
from scuba.bubble.http import BubbleClient
from scuba.bubble.tail import follow
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.scripted import serve_scripted
from tests.bench.latency import Bench, running_bot
from tests.bench.measure import Figure, ms
from tests.bench.plain import PlainCli, plain_cli
from tests.bench.settings import real_settings
from tests.kit.claude_env import hermetic_env

STARTS, TURNS, APPROVALS = 5, 20, 10
PAUSE_S = 0.3
"""Before each turn, on both sides: the subscription stands, the CLI is as idle here as there."""
TOOL = '%%tool Bash {"command": "touch made"}\n%%say done'


async def figures(place: Path) -> list[Figure]:
    """Measure start, later turns and approvals."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_scripted)
        starts = [await _start(place) for _ in range(STARTS)]
        floor = await _plain(place, url)
        harness = ClaudeHarness(real_settings(place, url))
        async with running_bot(place, harness) as bench:
            cold = [await _cold(bench) for _ in range(STARTS)]
            await _delta(bench, "warm up")
            turns = [await _delta(bench, f"turn {number}") for number in range(TURNS)]
            approvals = [await _approval(bench) for _ in range(APPROVALS)]
        nursery.cancel_scope.cancel()
    return [
        Figure(
            "`scuba --model scripted` starts → first delta of the first turn at a subscriber",
            ms([whole for _, whole in starts]),
            ms(floor["start"]) + ", CLI alone",
            "floor + 300 ms",
        ),
        Figure("… until it is ready", ms([ready for ready, _ in starts])),
        Figure(
            "first message on a thread of a running scuba → first delta (its CLI is started)",
            ms(cold),
            ms(floor["start"]) + ", CLI alone",
            "floor + 300 ms",
        ),
        Figure(
            "later turns: prompt → first delta at a subscriber",
            ms(turns),
            ms(floor["turn"]),
            "floor + 5 ms",
        ),
        Figure(
            "approval answered → tool result", ms(approvals), ms(floor["approval"]), "floor + 8 ms"
        ),
        Figure("`scuba --help`, whole process", ms([_help() for _ in range(10)]), "", "150 ms"),
    ]


# --- the floor ---------------------------------------------------------------------------------


async def _plain(place: Path, url: str) -> dict[str, list[float]]:
    from scuba.harness.claude.checks import check
    from scuba.harness.claude.options import options_for  # takes most of a second to import
    from scuba.harness.claude.transport import command_line

    settings = real_settings(place, url)
    found: dict[str, list[float]] = {"start": [], "turn": [], "approval": []}

    async def never(*_: object) -> object:
        raise AssertionError("the plain pipe answers by itself")

    for _ in range(STARTS):
        options = options_for(
            settings,
            cli=check(settings),
            session_id=str(uuid.uuid4()),
            resume=False,
            settings_file=None,
            can_use_tool=never,  # type: ignore[arg-type]  # never called
        )
        began = time.perf_counter()
        env = dict(settings.env)
        async with plain_cli(command_line(options), env, str(settings.cwd)) as cli:
            await cli.initialize()
            await cli.prompt("hello")
            await cli.until(b'"text_delta"')
            found["start"].append(time.perf_counter() - began)
            await cli.until(b'"type":"result"')
            for number in range(TURNS // STARTS):
                found["turn"].append(await _plain_turn(cli, f"turn {number}"))
                await cli.until(b'"type":"result"')
            for _ in range(APPROVALS // STARTS):
                found["approval"].append(await _plain_approval(cli))
                await cli.until(b'"type":"result"')
    return found


async def _plain_turn(cli: PlainCli, text: str) -> float:
    await trio.sleep(PAUSE_S)
    began = time.perf_counter()
    await cli.prompt(text)
    await cli.until(b'"text_delta"')
    return time.perf_counter() - began


async def _plain_approval(cli: PlainCli) -> float:
    await trio.sleep(PAUSE_S)
    await cli.prompt(TOOL)
    asked = json.loads(await cli.until(b'"can_use_tool"'))
    answer = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
    response = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
    began = time.perf_counter()
    await cli.send({"type": "control_response", "response": response})
    await cli.until(b'"tool_result"')
    return time.perf_counter() - began


# --- through scuba -----------------------------------------------------------------------------


async def _delta(bench: Bench, text: str) -> float:
    """Return the time from a message to the first delta of its answer, and wait for its end."""
    return await _until(bench, text, lambda chunk: chunk.get("type") == "text-delta")


async def _cold(bench: Bench) -> float:
    """Return the same for a thread that is new, so that its CLI has to start."""
    new = Bench(bench.server, await bench.server.make_thread(bench.server.bot))
    async with new.client:
        return await _delta(new, "hello")


async def _until(bench: Bench, text: str, seen: Callable[[dict[str, object]], bool]) -> float:
    head = (await bench.client.thread(bench.thread_id)).thread.last_seq
    took = 0.0
    with trio.fail_after(60):
        async with _following(bench, head) as envelopes:
            began = time.perf_counter()
            await bench.server.say(bench.thread_id, text)
            async for envelope in envelopes:
                if not took and seen(_chunk(envelope)):
                    took = time.perf_counter() - began
                if envelope.type == "run_finished":
                    return took
    raise AssertionError("the subscription ended")


async def _approval(bench: Bench) -> float:
    head = (await bench.client.thread(bench.thread_id)).thread.last_seq
    began, took = 0.0, 0.0
    with trio.fail_after(60):
        async with _following(bench, head) as envelopes:
            await bench.server.say(bench.thread_id, TOOL)
            async for envelope in envelopes:
                chunk = _chunk(envelope)
                if chunk.get("type") == "tool-approval-request":
                    payload = {"toolCallId": chunk["toolCallId"], "decision": "allow"}
                    decision = {
                        "type": "tool_call_approval",
                        "runId": envelope.run_id,
                        "payload": payload,
                    }
                    began = time.perf_counter()
                    await bench.server.append(bench.thread_id, [decision])
                elif chunk.get("type") == "tool-output-available":
                    took = time.perf_counter() - began
                elif envelope.type == "run_finished":
                    return took
    raise AssertionError("the subscription ended")


@asynccontextmanager
async def _following(
    bench: Bench, head: int
) -> AsyncGenerator[trio.abc.ReceiveChannel[wire.Envelope]]:
    async with follow(bench.client, bench.thread_id, head) as envelopes:
        await trio.sleep(PAUSE_S)
        yield envelopes


def _chunk(envelope: wire.Envelope) -> dict[str, object]:
    if envelope.type != "message_part" or not envelope.principal_id.startswith("bot"):
        return {}
    chunk: dict[str, object] = msgspec.json.decode(envelope.payload)["chunk"]
    return chunk


async def _start(place: Path) -> tuple[float, float]:
    """Return how long a new scuba took to be ready, and to say its first word."""
    name = uuid.uuid4().hex[:6]
    ready, state = place / f"ready-{name}.json", place / f"state-{name}"
    command = [sys.executable, "-m", "scuba", "--model", "scripted", "--port", "0", "--json"]
    command += ["--state-dir", str(state), "--cwd", str(place), "--ready-file", str(ready)]
    env = {**hermetic_env(place, ""), "PYTHONPATH": str(Path(__file__).parents[2])}
    began = time.perf_counter()
    process = await trio.lowlevel.open_process(command, env=env, stdout=subprocess.DEVNULL)
    try:
        with trio.fail_after(60):
            while not ready.exists():  # noqa: ASYNC110  # a file has no event
                await trio.sleep(0.005)
            ready_s = time.perf_counter() - began
            facts = json.loads(ready.read_text())
            async with BubbleClient(facts["url"], facts["userToken"]) as client:
                return ready_s, await _first_word(client, facts["threadId"], began)
    finally:
        process.terminate()
        await process.wait()


async def _first_word(client: BubbleClient, thread_id: str, began: float) -> float:
    async with follow(client, thread_id, 0) as envelopes:
        chunk = {"type": "text-delta", "id": "t", "delta": "hello"}
        payload = msgspec.Raw(msgspec.json.encode({"chunk": chunk}))
        await client.append(
            thread_id, [wire.NewEvent(type="message_part", payload=payload, key="1")]
        )
        async for envelope in envelopes:
            if _chunk(envelope).get("type") == "text-delta":
                return time.perf_counter() - began
    raise AssertionError("the subscription ended")


def _help() -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "scuba", "--help"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    return time.perf_counter() - began
