"""The fake CLI's process: its output, its input and the control protocol, its session on disk."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

Json = dict[str, Any]


class Start:
    """Faults of the whole process, from `--fake`."""

    def __init__(self, faults: Json) -> None:
        self.never_init: bool = faults.pop("never_init", False)
        self.exit: int | None = faults.pop("exit", None)
        self.signal: int | None = faults.pop("signal", None)
        self.slow_s: float = faults.pop("slow_s", 0)
        self.stderr_bytes: int = faults.pop("stderr_bytes", 0)
        self.ignore_sigterm: bool = faults.pop("ignore_sigterm", False)
        self.ignore_eof: bool = faults.pop("ignore_eof", False)
        self.mute: bool = faults.pop("mute", False)
        """Never answers a control request but `initialize`."""
        self.deaf: bool = faults.pop("deaf", False)
        """Acknowledges interrupts and goes on."""
        self.other_id: bool = faults.pop("other_id", False)
        """Takes up a session that it is to resume, and calls it by another id from then on."""
        self.poisoned: int = faults.pop("poisoned", 0)
        """Each prompt to a session that was resumed ends in this error of the API."""
        self.pieces: int = faults.pop("pieces", 0)
        self.newline: str = faults.pop("newline", "\n")
        if faults:
            sys.exit(f"fake_cli: unknown faults {sorted(faults)}")


class Output:
    """stdout: one record a line, in pieces and batches as ordered."""

    def __init__(self, start: Start) -> None:
        self.pieces = start.pieces
        self.newline = start.newline.encode()
        self.ascii_only = True
        self.held: list[bytes] | None = None

    def record(self, value: Json) -> None:
        text = json.dumps(value, ensure_ascii=self.ascii_only, separators=(",", ":"))
        self.raw(text.encode(errors="surrogatepass") + self.newline)

    def raw(self, data: bytes) -> None:
        if self.held is not None:
            self.held.append(data)
            return
        step = self.pieces or len(data)
        for start in range(0, len(data), step or 1):
            view = memoryview(data)[start : start + step]
            while view:
                view = view[os.write(1, view) :]

    def release(self) -> None:
        held, self.held = self.held, None
        if held:
            self.raw(b"".join(held))


class Cli:
    """The process: its session, its input, and the prompts that wait."""

    def __init__(self, argv: list[str]) -> None:
        options = dict(arg.removeprefix("--").partition("=")[::2] for arg in argv)
        self.start = Start(json.loads(options.get("fake") or "{}"))
        self.out = Output(self.start)
        self.partial = "include-partial-messages" in options
        self.replay = "replay-user-messages" in options
        self.resumed: str | None = options.get("resume")
        self.session_id = self.resumed or options.get("session-id") or str(uuid.uuid4())
        self.prompts: list[Json] = []
        self.answers: dict[str, Json] = {}
        self.tools: list[subprocess.Popen[bytes]] = []
        self.tasks: list[Json] = []
        """What is to be done in background, once nothing else is."""
        self.current_task: str | None = None
        self.stop = self.eof = False
        self.results = 0
        self._input = b""

    # --- the session on disk ---------------------------------------------------------------

    @property
    def transcript(self) -> Path:
        home = os.environ.get("CLAUDE_CONFIG_DIR") or str(Path.home() / ".claude")
        return Path(home) / "projects" / "-fake" / f"{self.session_id}.jsonl"

    def history(self) -> list[str]:
        """Return the prompts so far, the one in hand too."""
        with contextlib.suppress(FileNotFoundError):
            lines = [json.loads(line) for line in self.transcript.read_text().splitlines()]
            contents = [line["message"]["content"] for line in lines if line["type"] == "user"]
            return [content for content in contents if isinstance(content, str)]
        return []

    def remember(self, type_: str, message: object, **fields: object) -> None:
        """Write a line of the transcript, as the real CLI does."""
        line = {"type": type_, "message": message, "uuid": new_uuid(), "isSidechain": False}
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a") as file:
            file.write(json.dumps(line | fields) + "\n")

    # --- output ----------------------------------------------------------------------------

    def say(self, type_: str, **fields: object) -> None:
        own = {"type": type_, "session_id": self.session_id, "uuid": new_uuid()}
        self.out.record(own | fields)

    def state(self, state: str) -> None:
        self.say("system", subtype="session_state_changed", state=state)

    def task(self, subtype: str, task: Json, **fields: object) -> None:
        named = {"task_id": task["task_id"], "tool_use_id": task["tool_use_id"]}
        self.say("system", subtype=subtype, **named, **fields)

    def tasks_changed(self, tasks: list[Json]) -> None:
        shown = [{"task_id": task["task_id"], "task_type": "local_agent"} for task in tasks]
        self.say("system", subtype="background_tasks_changed", tasks=shown)

    def life(self, prompt: Json, state: str) -> None:
        if prompt.get("uuid"):
            self.say("command_lifecycle", command_uuid=prompt["uuid"], state=state)

    # --- input -----------------------------------------------------------------------------

    def pump(self, wait_s: float | None) -> None:
        """Take what comes within `wait_s` (None: for ever)."""
        if self.eof:
            time.sleep(0.05 if wait_s is None else min(wait_s, 0.05))
            return
        if not select.select([0], [], [], wait_s)[0]:
            return
        chunk = os.read(0, 1 << 20)
        self.eof = not chunk
        *lines, self._input = (self._input + chunk).split(b"\n")
        for line in filter(None, lines):
            try:
                self.take(json.loads(line))
            except ValueError:
                sys.exit(f"Error parsing streaming input line: {line[:80]!r}")

    def take(self, message: Json) -> None:
        match message["type"]:
            case "control_request":
                self.control(message["request_id"], message["request"])
            case "control_response":
                self.answers[message["response"]["request_id"]] = message["response"]
                if self.replay:
                    self.out.record(message)  # so does the real one; nobody should mind
            case "user":
                self.prompts.append(message)
                self.state("running")
                self.life(message, "queued")
            case other:
                sys.exit(f"fake_cli: a message of type {other!r}")

    def control(self, request_id: str, request: Json) -> None:
        answer: Json = {}
        match request["subtype"]:
            case "initialize" if self.start.never_init:
                return
            case "initialize":
                answer = {"commands": [], "models": [], "output_style": "default"}
            case _ if self.start.mute:
                return
            case "interrupt":
                answer = self.interrupt(cancel=bool(request.get("cancel_queued")))
            case "cancel_async_message":
                cancelled = self.cancel(request["message_uuid"])
                answer = {"cancelled": cancelled, "message_uuid": request["message_uuid"]}
            case "stop_task":
                self.stop_task(request["task_id"])
            case _:
                pass  # set_model and the like: acknowledged
        response = {"subtype": "success", "request_id": request_id, "response": answer}
        self.out.record({"type": "control_response", "response": response})

    def interrupt(self, *, cancel: bool) -> Json:
        self.stop = not self.start.deaf
        queued = [prompt["uuid"] for prompt in self.prompts if prompt.get("uuid")]
        if cancel:
            return {"still_queued": [], "cancelled": [one for one in queued if self.cancel(one)]}
        return {"still_queued": queued}

    def stop_task(self, task_id: str) -> None:
        """Stop one that works, in which case the model is told; one that waits never begins."""
        if task_id == self.current_task:
            self.stop, self.current_task = True, None
        self.tasks = [task for task in self.tasks if task["task_id"] != task_id]

    def cancel(self, prompt_uuid: str) -> bool:
        for prompt in self.prompts:
            if prompt.get("uuid") == prompt_uuid:
                self.prompts.remove(prompt)
                self.life(prompt, "cancelled")
                return True
        return False

    # --- life ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start as ordered; exit when the session cannot be had."""
        signal.signal(signal.SIGTERM, self.terminated)
        if self.start.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        chatter(self.start.stderr_bytes)
        time.sleep(self.start.slow_s)
        if self.start.signal is not None:
            os.kill(os.getpid(), self.start.signal)
        if self.start.exit is not None:
            sys.exit(self.start.exit)
        if self.resumed and not self.transcript.exists():
            error = f"No conversation found with session ID: {self.resumed}"
            self.result({}, "error_during_execution", None, num_turns=0, errors=[error])
            sys.exit(error)
        if self.resumed and self.start.other_id:
            self.session_id = new_uuid()
        if not self.resumed and self.transcript.exists():
            sys.exit(f"Error: Session ID {self.session_id} is already in use.")

    def result(self, prompt: Json, subtype: str, reason: str | None, **fields: object) -> None:
        ours = [prompt["uuid"]] if prompt.get("uuid") else []
        record: Json = {
            "subtype": subtype,
            "is_error": subtype != "success",
            "num_turns": 1,
            "result": "",
            "stop_reason": "end_turn",
            "duration_ms": 1,
            "duration_api_ms": 1,
            "total_cost_usd": (self.results + 1) / 1000,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "modelUsage": {"fake": {"inputTokens": self.results + 1, "costUSD": 0.001}},
            "permission_denials": [],
            "queued_turn_count": len(self.prompts),
            "result_index": self.results,
            "user_message_uuids": ours,
        }
        if reason is not None:
            record["terminal_reason"] = reason
        if ours:
            record["user_message_uuid"] = ours[0]
        self.results += 1
        self.say("result", **record | fields)

    def kill_tools(self) -> None:
        for tool in self.tools:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tool.pid, signal.SIGKILL)
            tool.wait()
        self.tools.clear()

    def terminated(self, _signal: int, _frame: object) -> NoReturn:
        self.kill_tools()
        os._exit(143)


def chatter(size: int) -> None:
    """Write so many bytes to stderr."""
    line = b"fake_cli: " + b"e" * 90 + b"\n"
    for _ in range(-(-size // len(line))):
        os.write(2, line)


def new_uuid() -> str:
    return str(uuid.uuid4())
