"""One turn of the fake CLI: the actions of its prompt, tools and permissions, and how it ends."""

import os
import subprocess
import sys
import tempfile
import uuid

from tests.kit.fake_process import Json, new_uuid
from tests.kit.fake_reply import BODY, Interrupted, Reply
from tests.kit.fake_script import actions, asks

VERSION = "2.1.332"
"""The real CLI that this one is modelled on."""
STOPPED = "[Request interrupted by user]"
STOPPED_TOOL = "[Request interrupted by user for tool use]"
REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


class Turn(Reply):
    """One prompt and its answer. Each `do_…` is an action of a prompt."""

    def run(self) -> None:
        cli, prompt = self.cli, self.prompt
        cli.stop = False
        cli.life(prompt, "started")
        known_as = prompt.get("uuid") or new_uuid()
        cli.remember("user", prompt["message"], uuid=known_as, promptId=self.turn_id)
        about = {"cwd": os.getcwd(), "tools": ["Bash", "Task"], "model": "fake"}
        cli.say("system", subtype="init", claude_code_version=VERSION, **about)
        if cli.replay:
            echo = {"message": prompt["message"], "uuid": known_as}
            cli.say("user", **echo, isReplay=True, parent_tool_use_id=None)
        try:
            poisoned = cli.start.poisoned if cli.resumed else 0
            self.act([{"error": poisoned}] if poisoned else actions(self.text))
            self.end_reply()
            (self.ended or self.succeeded)()
            state = "cancelled" if self.ended else "completed"
        except Interrupted:
            self.aborted()
            state = "cancelled"
        cli.out.release()
        cli.life(prompt, state)
        while cli.tasks and not cli.prompts:
            self.work_on(cli.tasks.pop(0))
        if not cli.prompts:
            cli.state("idle")

    def act(self, todo: list[Json]) -> None:
        for action in todo:
            self.cli.pump(0)
            self.check()
            name = next(iter(action))
            method = getattr(self, f"do_{name}", None)
            if method is None:
                sys.exit(f"fake_cli: no action is called {name!r}")
            if name not in ("sleep", "say_more"):
                self.end_block()
            method(**{("value" if key == name else key): item for key, item in action.items()})
            if self.ended is not None:
                return
        self.cli.pump(0)
        self.check()

    # --- ends ------------------------------------------------------------------------------

    def succeeded(self) -> None:
        self.cli.result(self.prompt, "success", "completed", result=self.said)

    def aborted(self) -> None:
        if self.block is not None:
            kind, text = self.block
            self.block = None
            self.whole({"type": kind, BODY[kind]: text}, aborted=True)
        self.remember(None)
        self.user([{"type": "text", "text": STOPPED_TOOL if self.in_tool else STOPPED}])
        reason = "aborted_tools" if self.in_tool else "aborted_streaming"
        errors = ["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"]
        self.cli.result(self.prompt, "error_during_execution", reason, errors=errors)

    def do_error(self, value: int | str) -> None:
        """End as the real CLI does when the API answers with an error status, and its message."""
        status, _, message = str(value).partition(" ")
        kind = {"401": "authentication_failed", "403": "authentication_failed", "429": "rate_limit"}
        error = kind.get(status, "server_error" if status >= "500" else "unknown")
        text, reason = f"API Error: {status} {message or 'scripted'}", "api_error"
        if status == "413" or "image exceeds" in message:
            text, error, reason = "Image was too large.", "invalid_request", "image_error"
        elif "prompt is too long" in message:
            text, error, reason = "Prompt is too long", "invalid_request", "prompt_too_long"
        elif "credit balance" in message:
            text, error = "Credit balance is too low", "billing_error"
        self.fail(text, error, int(status), reason)

    def do_login(self, value: object = None) -> None:
        """End as the real CLI does without credentials."""
        self.fail("Not logged in · Please run /login", "authentication_failed", None)

    def fail(self, text: str, error: str, status: int | None, reason: str = "completed") -> None:
        self.end_reply()
        content = [{"type": "text", "text": text}]
        message = {"id": new_uuid(), "model": "<synthetic>", "content": content}
        self.cli.remember("assistant", message | {"stop_reason": "stop_sequence"})
        self.cli.say(
            "assistant",
            message=message,
            parent_tool_use_id=None,
            error=error,
            is_api_error_message=True,
            api_error_status=status,
        )
        end: Json = {"result": text, "is_error": True, "api_error_status": status}
        self.ended = lambda: self.cli.result(self.prompt, "success", reason, **end)

    # --- tools -----------------------------------------------------------------------------

    def do_tool(self, value: str, **call: object) -> None:
        self.do_tools([{"name": value, **call}])

    def do_tools(self, value: list[Json], *, parallel: bool = False) -> None:
        """Call tools in one reply, one after the other; `parallel`: ask for all at once."""
        for call in value:
            call.setdefault("id", f"toolu_{uuid.uuid4().hex[:22]}")
            call.setdefault("input", {})
            block = {"type": "tool_use", "id": call["id"], "name": call["name"]}
            self.whole(block | {"input": call["input"]})
        self.end_reply()
        self.in_tool = True
        asked = [self.ask(call) for call in value if parallel and asks(call)]
        for call in value:
            if not parallel and asks(call):
                asked = [self.ask(call)]
            try:
                self.one(call, asked.pop(0) if asks(call) else None)
            except Interrupted:
                self.returned(call["id"], REJECTED, error=True, decision="reject")
                for request_id in asked:
                    self.withdraw(request_id)
                raise
        self.in_tool = False

    def ask(self, call: Json) -> str:
        request_id = new_uuid()
        request = {
            "subtype": "can_use_tool",
            "tool_name": call["name"],
            "input": call["input"],
            "tool_use_id": call["id"],
        }
        if self.agent_id is not None:
            request["agent_id"] = self.agent_id
        self.cli.state("requires_action")
        ask = {"type": "control_request", "request_id": request_id, "request": request}
        self.cli.out.record(ask)
        return request_id

    def withdraw(self, request_id: str) -> None:
        cancel = {"type": "control_cancel_request", "request_id": request_id}
        self.cli.out.record(cancel)

    def one(self, call: Json, request_id: str | None) -> None:
        """Wait for the decision on a call, and run it."""
        if request_id is not None:
            while request_id not in self.cli.answers:
                self.cli.pump(None)
                if self.cli.stop or self.cli.eof:
                    self.withdraw(request_id)
                    raise Interrupted
            self.cli.state("running")
            answer = self.cli.answers.pop(request_id)
            decision = answer.get("response") or {"behavior": "deny", "message": "no answer"}
            if decision["behavior"] == "deny":
                self.returned(call["id"], decision["message"], error=True, decision="reject")
                return
            call["input"] = decision.get("updatedInput") or call["input"]
        output, error = self.output(call)
        self.returned(call["id"], output, error=error, decision="accept")

    def output(self, call: Json) -> tuple[str, bool]:
        if "output" in call or "command" not in call["input"]:
            self.wait(call.get("seconds", 0))
            return call.get("output", "ok"), call.get("error", False)
        with tempfile.TemporaryFile() as file:
            status = self.shell(call["input"]["command"], file.fileno())
            file.seek(0)
            text = file.read().decode(errors="replace").rstrip("\n")
        return text or f"({call['name']} completed with no output)", status != 0

    def shell(self, command: str, output: int) -> int:
        """Run a command in a session of its own, as the real CLI does; return its status."""
        tool = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self.cli.tools.append(tool)
        try:
            while tool.poll() is None:
                self.wait(0.01)
        except Interrupted:
            self.cli.kill_tools()
            raise
        self.cli.tools.remove(tool)
        return tool.returncode

    def returned(self, call_id: str, output: str, *, error: bool, decision: str) -> None:
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        meta = {"id": call_id, "permission_decision": {"decision": decision}}
        self.user([result | {"is_error": error}], tool_result_meta=[meta])

    # --- sub-agents ------------------------------------------------------------------------

    def do_agent(self, value: str) -> None:
        """Have a sub-agent do the steps, and wait for it."""
        task, said = self.delegate(value, background=False), self.said
        report, status = self.sub_agent(task)
        self.said = said
        self.cli.task("task_notification", task, status=status, summary=report)
        self.returned(task["tool_use_id"], report, error=False, decision="accept")

    def do_background(self, value: str) -> None:
        """Have a sub-agent do the steps when the turn is over."""
        task = self.delegate(value, background=True)
        self.cli.tasks.append(task)
        self.cli.tasks_changed(self.cli.tasks)
        launched = "Async agent launched successfully."
        self.returned(task["tool_use_id"], launched, error=False, decision="accept")

    def delegate(self, steps: str, *, background: bool) -> Json:
        call_id, task_id = f"toolu_{uuid.uuid4().hex[:22]}", f"a{uuid.uuid4().hex[:16]}"
        input_ = {"description": steps[:40], "prompt": steps, "run_in_background": background}
        self.whole({"type": "tool_use", "id": call_id, "name": "Agent", "input": input_})
        self.end_reply()
        task = {"task_id": task_id, "tool_use_id": call_id, "prompt": steps}
        self.cli.task("task_started", task, is_backgrounded=background, task_type="local_agent")
        return task

    def sub_agent(self, task: Json) -> tuple[str, str]:
        """Return its report, and how it ended."""
        inner = Turn(self.cli, self.prompt)
        inner.parent = task["tool_use_id"]
        inner.agent_id = task["task_id"]
        inner.user([{"type": "text", "text": task["prompt"]}])
        inner.act(actions(task["prompt"]))
        inner.end_reply()
        return inner.said, "completed"

    def work_on(self, task: Json) -> None:
        """Do a background task to its end; the model answers its report, unless it was stopped."""
        cli = self.cli
        cli.stop, cli.current_task = False, task["task_id"]
        try:
            report, status = self.sub_agent(task)
        except Interrupted:
            report, status = "", "stopped"
        told = not cli.stop or cli.current_task is None
        cli.stop, cli.current_task = False, None
        cli.task("task_notification", task, status=status, summary=report)
        cli.tasks_changed(cli.tasks)
        if told:
            answer = Turn(cli, {"message": {"content": ""}})
            answer.do_say(f"{task['task_id']} {status}: {report}")
            answer.end_reply()
            cli.result({}, "success", "completed", origin={"kind": "task-notification"})
