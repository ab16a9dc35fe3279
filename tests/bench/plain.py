"""A CLI on a plain pipe, without scuba: the floor."""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from subprocess import PIPE
from typing import Any

import trio


class PlainCli:
    """The process and its lines, as bytes."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._rest = b""
        self._lines: list[bytes] = []

    async def send(self, frame: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(frame).encode() + b"\n")

    async def prompt(self, text: str) -> None:
        message = {"role": "user", "content": text}
        frame = {"type": "user", "message": message, "parent_tool_use_id": None}
        await self.send({**frame, "uuid": str(uuid.uuid4()), "session_id": "default"})

    async def initialize(self) -> None:
        request = {"subtype": "initialize", "hooks": None}
        await self.send({"type": "control_request", "request_id": "r1", "request": request})
        await self.until(b'"control_response"')

    async def chunk(self) -> list[bytes]:
        """Return the next complete lines."""
        assert self.process.stdout is not None
        while True:
            data = await self.process.stdout.receive_some(1 << 18)
            if not data:
                raise EOFError("the CLI closed its output")
            *lines, self._rest = (self._rest + data).split(b"\n")
            if lines:
                return lines

    async def until(self, mark: bytes) -> bytes:
        """Return the first line with `mark` in it."""
        while True:
            while self._lines:
                line = self._lines.pop(0)
                if mark in line:
                    return line
            self._lines = await self.chunk()


@asynccontextmanager
async def plain_cli(
    command: Sequence[str], env: Mapping[str, str], cwd: str
) -> AsyncGenerator[PlainCli]:
    """Start a CLI as scuba would, talk to it over a pipe, end it."""
    start = partial(trio.lowlevel.open_process, list(command), env=dict(env), cwd=cwd)
    process = await start(stdin=PIPE, stdout=PIPE, stderr=None)
    try:
        yield PlainCli(process)
    finally:
        with trio.move_on_after(5, shield=True):
            assert process.stdin is not None
            await process.stdin.aclose()
            process.terminate()
            await process.wait()
