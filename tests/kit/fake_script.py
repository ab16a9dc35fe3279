"""What a prompt to the fake CLI orders: steps of the scripted model, JSON actions, or an echo."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

READ_ONLY = {"echo", "ls", "cat", "pwd", "true", "head", "wc"}
"""What the real CLI runs without asking; cut to what tests use."""
SCRIPT_WORDS = {"say", "think", "sleep", "error", "agent", "background", "recall", "attached"}


def actions(text: str) -> list[Json]:
    """Return what a prompt orders."""
    if text.startswith("["):
        with contextlib.suppress(ValueError):
            return list(json.loads(text))
    lines = [line.strip() for line in text.split("\n")]
    steps = [step for line in lines if line.startswith("%%") for step in split(line)]
    return list(scripted(steps)) if steps else [{"say": f"echo: {text}"}]


def split(line: str) -> list[str]:
    """Return the steps of a line; what a sub-agent gets stays whole."""
    agent = re.search(r"%%(agent|background) ", line)
    before = line[: agent.start()] if agent else line
    steps = [step for step in re.split(r" ;; (?=%%)", before) if step.strip(" ;")]
    return [*steps, line[agent.start() :]] if agent else steps


def scripted(steps: list[str]) -> Iterator[Json]:
    calls: list[Json] = []
    for step in steps:
        word, _, rest = step.removeprefix("%%").partition(" ")
        if word in ("tool", "call"):
            name, _, arguments = rest.partition(" ")
            calls.append({"name": name, "input": json.loads(arguments)})
            if word == "tool":
                yield {"tools": calls}
                calls = []
        elif word in SCRIPT_WORDS:
            yield {word: float(rest) if word == "sleep" else rest}
        else:
            yield {"say": f"script error: no step is called %%{word}"}
            return


def asks(call: Json) -> bool:
    command = call["input"].get("command", "")
    words = re.findall(r"(?:^|[;&|]\s*)(\w+)", command)
    return bool(call.get("ask", not command or not set(words) <= READ_ONLY))


def load_batches(frames: int, size: int, batch: int, kind: str, session_id: str) -> Iterator[bytes]:
    """Yield lines that differ in their uuid only, encoded once."""
    text = "x" * size
    if kind == "delta":
        delta = {"type": "text_delta", "text": text}
        event = {"type": "content_block_delta", "index": 0, "delta": delta}
        body: Json = {"type": "stream_event", "event": event}
    else:
        content = [{"type": "text", "text": text}]
        body = {"type": "assistant", "message": {"id": "msg_load", "content": content}}
    body |= {"parent_tool_use_id": None, "session_id": session_id, "uuid": "#" * 36}
    head, tail = (json.dumps(body, separators=(",", ":")) + "\n").encode().split(b"#" * 36)
    for first in range(0, frames, batch):
        numbers = range(first, min(first + batch, frames))
        yield b"".join(b"%s%036x%s" % (head, number, tail) for number in numbers)
