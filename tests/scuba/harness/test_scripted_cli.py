"""The scripted model as the real Claude Code CLI sees it."""

import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import claude_agent_sdk
import trio

from scuba.harness.scripted import serve_scripted
from tests.kit.claude_env import hermetic_env, place

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
ARGUMENTS = (
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--model=claude-sonnet-5",
    "--permission-mode=acceptEdits",
    "--allowedTools=Bash,Agent",
    "--setting-sources=",
)

__all__ = ["place"]


class Conversation:
    """One CLI on plain pipes."""

    def __init__(self, process: trio.Process) -> None:
        self._process, self._rest = process, b""
        self._lines: list[bytes] = []

    async def turn(self, prompt: str) -> list[dict[str, Any]]:
        """Return the frames of one turn, its result last."""
        message = {"role": "user", "content": prompt}
        frame = {"type": "user", "message": message, "uuid": str(uuid.uuid4())}
        assert self._process.stdin is not None
        await self._process.stdin.send_all(json.dumps(frame).encode() + b"\n")
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["type"] != "result":
            frames.append(json.loads(await self._line()))
        return frames

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        while not self._lines:
            chunk = await self._process.stdout.receive_some()
            assert chunk, "the CLI has ended"
            *self._lines, self._rest = (self._rest + bytes(chunk)).split(b"\n")
        return self._lines.pop(0)


@asynccontextmanager
async def conversation(place: Path, url: str) -> AsyncIterator[Conversation]:
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [str(CLI), *ARGUMENTS],
                env=hermetic_env(place, url),
                cwd=place,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                check=False,
            )
        )
        yield Conversation(process)
        assert process.stdin is not None
        await process.stdin.aclose()


def blocks(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the content blocks of the main conversation."""
    return [
        block
        for frame in frames
        if frame["type"] in ("assistant", "user") and frame["parent_tool_use_id"] is None
        for block in frame["message"]["content"]
        if isinstance(block, dict)
    ]


async def test_the_real_cli_follows_a_script(place: Path, nursery: trio.Nursery) -> None:
    url = await nursery.start(serve_scripted)

    with trio.fail_after(60):
        async with conversation(place, url) as cli:
            echo = await cli.turn("hello\nyou")
            tool = await cli.turn(
                '%%think hm\n%%tool Bash {"command": "touch made; echo ok"}\n%%say so'
            )
            inner = '%%tool Bash {"command": "touch inner"} ;; %%say inner words'
            agent = await cli.turn(f"%%agent {inner}\n%%say outer words")
            error = await cli.turn("%%error 403")
            after = await cli.turn("%%recall")

    assert echo[-1]["result"] == "echo: hello\nyou"
    assert [block["type"] for block in blocks(tool)] == [
        "thinking",
        "tool_use",
        "tool_result",
        "text",
    ]
    assert blocks(tool)[2]["content"] == "ok"
    assert (place / "made").exists()
    assert (place / "inner").exists()
    assert "inner words" in json.dumps(blocks(agent)[1]["content"])
    assert agent[-1]["result"] == "outer words"
    assert (error[-1]["is_error"], error[-1]["api_error_status"]) == (True, 403)
    assert after[-1]["result"] == "recall: %%error 403"
