"""Lines of a Claude Code CLI, made short, for tests that need no process."""

import json
from typing import Any

from scuba.harness.claude.frames import Frame, decode


def line(type_: str, **fields: object) -> bytes:
    """Return one line of stdout, without its line feed."""
    return json.dumps({"type": type_, "session_id": "s", **fields}).encode()


def frame(type_: str, **fields: object) -> Frame:
    """Return the frame of such a line."""
    return decode(line(type_, **fields))


def event(type_: str, **fields: object) -> Frame:
    return frame("stream_event", event={"type": type_, **fields})


def message_start(message_id: str) -> Frame:
    return event("message_start", message={"id": message_id})


def delta(text: str, index: int = 0, kind: str = "text") -> Frame:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", kind: text})


def whole(message_id: str, *blocks: dict[str, Any], **fields: object) -> Frame:
    message = {"id": message_id, "model": "m", "content": list(blocks)}
    return frame("assistant", message=message, **fields)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def thinking(value: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": value}


def tool_use(call_id: str, name: str = "Bash", **input_: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": input_}


def returned(call_id: str, content: object, **fields: object) -> Frame:
    is_error = fields.pop("is_error", False)
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return frame("user", message={"content": [{**block, "is_error": is_error}]}, **fields)


def state(value: str) -> Frame:
    return frame("system", subtype="session_state_changed", state=value)


def life(uuid: str, value: str) -> Frame:
    return frame("command_lifecycle", command_uuid=uuid, state=value)


def result(uuid: str, **fields: object) -> Frame:
    given = {"subtype": "success", "num_turns": 1, "terminal_reason": "completed", **fields}
    return frame("result", user_message_uuids=[uuid], **given)
