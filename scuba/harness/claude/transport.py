"""RawTransport: the SDK for the control plane, our own structs for the data plane.

It owns the CLI process. Each line of stdout is decoded once: control frames go on to the SDK, which
serves permissions, hooks and in-process MCP; all data goes into a `FrameQueue`. So the SDK's buffer
of 100 messages stays empty, and neither a slow session nor a long answer holds up a control reply.
"""

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import trio
from claude_agent_sdk import ClaudeAgentOptions, CLIConnectionError, ProcessError, Transport
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from scuba.harness.claude.frames import (
    Assistant,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    Exited,
    Frame,
    Gone,
    Lifecycle,
    Other,
    RateLimitEvent,
    Result,
    StreamEvent,
    System,
    User,
    decode,
)
from scuba.harness.claude.pipes import STDERR_LINE_BYTES, LastWords, receive
from scuba.harness.claude.queue import FrameQueue
from scuba.harness.claude.requests import Requests
from scuba.harness.claude.values import load
from scuba.harness.processes import start_cli

LINE_BYTES = 64 << 20
"""The longest line that is read; an edit of a file carries the whole file twice."""
WRITE_S = 5.0
"""How long the CLI may take to read a line of ours before the session counts as broken."""
EXIT_S = 2.0
"""How long a dead CLI's pipes may be held open by what it started."""
STDERR_S = 0.3
"""How long the last words of a dead CLI are waited for."""
DATA = (StreamEvent, Assistant, User, Result, System, Lifecycle, RateLimitEvent)
FOR_SDK = frozenset({"control_request", "control_response", "control_cancel_request"})

Control = ControlRequest | ControlCancel


class Broken(CLIConnectionError, Gone):
    """The CLI cannot be spoken to any more; in the SDK's terms, and in ours."""


def command_line(options: ClaudeAgentOptions) -> list[str]:
    """Return the argv the SDK would start the CLI with; permissions are asked over stdio."""
    asked = replace(options, can_use_tool=None, permission_prompt_tool_name="stdio")
    return SubprocessCLITransport("", asked)._build_command()  # pyright: ignore[reportPrivateUsage]  # the SDK has no public argv builder


class RawTransport(Transport):
    """One CLI process: `connect` starts it, `pump` reads it, `close` ends its input.

    `pump` runs in a task of the owner, and again in another one while the process is being ended.
    `watch` sees each permission request and its withdrawal before the SDK does.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        frames: FrameQueue,
        watch: Callable[[Control], None],
    ) -> None:
        self._command, self._environment, self._cwd = list(command), dict(environment), cwd
        self._frames, self._watch = frames, watch
        self._process: trio.Process | None = None
        self._writing = trio.Lock()
        self._requests = Requests(self.send)
        self._partial = bytearray()
        self._unsorted: deque[bytes] = deque()
        self._last_words = LastWords()
        self._to_sdk, self._for_sdk = trio.open_memory_channel[dict[str, Any]](0)
        self._started, self._ended = trio.Event(), trio.Event()
        self._asked = False
        self._stuck = self._code = ""
        self._last_error = ""

    @property
    def process(self) -> trio.Process | None:
        """Return the CLI's process, once it was started."""
        return self._process

    @property
    def stderr_tail(self) -> list[str]:
        """Return the last lines of stderr, shortened."""
        return self._last_words.lines

    @property
    def last_error(self) -> str:
        """Return the text of the last result that was an error."""
        return self._last_error

    async def connect(self) -> None:
        """Start the CLI. Raises OSError."""
        with trio.CancelScope(shield=True):
            self._process = await start_cli(self._command, self._environment, self._cwd)
        self._started.set()
        await trio.lowlevel.checkpoint_if_cancelled()

    def is_ready(self) -> bool:
        """Return whether the CLI can be written to."""
        return self._process is not None and not (
            self._asked or self._stuck or self._ended.is_set()
        )

    async def write(self, data: str) -> None:
        """Write whole lines, even when cancelled: the CLI exits on half a line.

        Raises Broken when it is gone or does not read within `WRITE_S`.
        """
        if not self.is_ready():
            raise Broken("the CLI takes no more input")
        assert self._process is not None
        assert self._process.stdin is not None
        with trio.move_on_after(WRITE_S, shield=True) as scope:
            try:
                async with self._writing:
                    await self._process.stdin.send_all(data.encode("utf-8", "replace"))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Broken("the CLI has closed its input") from error
        if scope.cancelled_caught:
            await self.give_up(f"the CLI has not read its input for {WRITE_S:g} s")
            raise Broken(self._stuck)

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Write one frame. Raises Broken."""
        await self.write(msgspec.json.encode(frame).decode() + "\n")

    async def request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the CLI's answer to a control request.

        Raises Gone when it refuses or goes; waits as long as it lives.
        """
        return await self._requests.ask(request)

    async def end_input(self) -> None:
        """Close stdin: the CLI finishes and exits."""
        self._asked = True
        if self._process is not None and self._process.stdin is not None:
            await self._process.stdin.aclose()

    async def release(self) -> None:
        """Close the pipes of a process that has ended: a cycle would keep them open for long."""
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                await pipe.aclose()

    async def close(self) -> None:
        """End the input. The owner ends the process (`processes.end_tree`) while it pumps."""
        with trio.CancelScope(shield=True):  # closing a pipe does not wait
            self._for_sdk.close()
            await self.end_input()

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield control frames to the SDK; raise ProcessError when the CLI has ended."""
        async for control in self._for_sdk:
            yield control
        code = self._process.returncode if self._process else None
        raise ProcessError(self._last_error or "the CLI ended", exit_code=code)

    async def pump(self) -> None:
        """Read both pipes until the CLI has ended; then `Exited` is in the queue.

        May be cancelled and called anew: no data that was read is lost.
        """
        await self._started.wait()
        if self._ended.is_set():
            return
        async with trio.open_nursery() as nursery:
            stderr_read = trio.Event()
            read = self._last_words.read
            nursery.start_soon(read, self._child.stderr, stderr_read, name="CLI stderr")
            nursery.start_soon(self._release_pipes, name="CLI exit")
            try:
                await self._read_stdout()
            except Broken as broken:
                self._stuck = str(broken)
            if not self._stuck:
                with trio.move_on_after(EXIT_S):  # the pipe is closed: how does the process end?
                    await self._child.wait()
            with trio.move_on_after(STDERR_S):
                await stderr_read.wait()
            nursery.cancel_scope.cancel()
        self._finish()

    async def give_up(self, why: str, code: str = "") -> None:
        """The CLI lives but is of no use: stop reading, so that the session hears of it.

        `code`: the class of failure that this is.
        """
        self._stuck, self._code = why, code
        assert self._child.stdout is not None
        await self._child.stdout.aclose()

    @property
    def _child(self) -> trio.Process:
        assert self._process is not None
        return self._process

    async def _release_pipes(self) -> None:
        """What the CLI started may hold its pipes open; news of its end must not wait for that."""
        await self._child.wait()
        await trio.sleep(EXIT_S)
        for pipe in (self._child.stdout, self._child.stderr):
            assert pipe is not None
            await pipe.aclose()

    async def _read_stdout(self) -> None:
        await self._sort()  # what an earlier pump has left
        while chunk := await receive(self._child.stdout):
            self._frame(chunk)
            await self._sort()
        self._frame(b"\n")  # a last line without an end
        await self._sort()

    def _frame(self, chunk: bytes | bytearray) -> None:
        """Cut off the lines that `chunk` completes. Only a line feed ends a line (9.3)."""
        self._partial += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(self._partial).split(b"\n")
            self._partial = bytearray(rest)
            self._unsorted.extend(lines)
        elif len(self._partial) > LINE_BYTES:
            raise Broken(f"a line of more than {LINE_BYTES >> 20} MiB")

    async def _sort(self) -> None:
        """Put data into the queue and hand control frames to the SDK, each in its order."""
        unsorted = self._unsorted
        while unsorted:
            line = unsorted.popleft()
            if not line or line.isspace():
                continue
            frame = decode(line)
            if isinstance(frame, DATA):
                self._keep(frame, line)
            else:
                await self._control(frame, line)  # cancelled here, the SDK is being closed anyway

    def _keep(self, frame: Frame, line: bytes) -> None:
        self._frames.put(frame, line)
        if isinstance(frame, Result):
            self._last_error = _error_of(frame)

    async def _control(self, frame: Frame, line: bytes) -> None:
        """Take replies to requests of ours; the rest is the SDK's."""
        if isinstance(frame, ControlResponse) and self._requests.take(frame.response):
            return
        if isinstance(frame, Other) and frame.kind not in FOR_SDK:
            self._frames.put(frame, line)
        elif data := frame.data if isinstance(frame, Other) else load(line):
            if isinstance(frame, ControlRequest) and frame.request.subtype == "can_use_tool":
                data["request"].setdefault("tool_use_id", frame.tool_call_id)
                self._watch(frame)
                self._frames.put(frame, line)
            elif isinstance(frame, ControlCancel):
                self._watch(frame)
                self._frames.put(frame, line)
            with contextlib.suppress(trio.BrokenResourceError):  # the SDK was closed before
                await self._to_sdk.send(data)

    def _finish(self) -> None:
        self._ended.set()
        self._requests.end()
        self._to_sdk.close()
        last = Exited(
            returncode=self._child.returncode,
            stderr=self.stderr_tail,
            asked=self._asked,
            error=self._stuck or self._last_error,
            code=self._code,
        )
        self._frames.close(last)


def _error_of(result: Result) -> str:
    if not result.is_error:
        return ""
    errors = [error for error in result.errors or () if isinstance(error, str)]
    return ("; ".join(errors) or result.result or result.subtype)[:STDERR_LINE_BYTES]
