"""How the fake CLI puts the model's words on its stream: deltas, whole blocks, echoes."""

import re
import time
import uuid
from collections.abc import Callable

from tests.kit.fake_process import Cli, Json

BODY = {"text": "text", "thinking": "thinking"}
"""Where a block of a kind has its text."""


class Interrupted(Exception):
    """The turn is to end."""


class Reply:
    """The model's part of one turn. Each `do_…` is an action of a prompt."""

    def __init__(self, cli: Cli, prompt: Json) -> None:
        self.cli, self.prompt = cli, prompt
        content = prompt["message"]["content"]
        self.blocks_in: list[Json] = [] if isinstance(content, str) else content
        texts = [block["text"] for block in self.blocks_in if block["type"] == "text"]
        self.text = content if isinstance(content, str) else texts[-1]
        self.turn_id = str(uuid.uuid4())
        self.parent: str | None = None
        self.agent_id: str | None = None
        """Of the sub-agent whose turn it is, and the call that began it."""
        self.reply_id: str | None = None
        self.block: tuple[str, str] | None = None
        """Kind and text of the block that is being streamed."""
        self.blocks = 0
        self.message: list[Json] = []
        """What is to be in the transcript when the message is complete."""
        self.in_tool = False
        self.said = ""
        self.ended: Callable[[], None] | None = None
        """Ends the turn in another way than success."""

    def check(self) -> None:
        if self.cli.stop:
            raise Interrupted

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.cli.pump(left)
            self.check()

    def user(self, content: list[Json], **fields: object) -> None:
        message = {"role": "user", "content": content}
        self.cli.say("user", message=message, parent_tool_use_id=self.parent, **fields)
        if self.parent is None:
            self.cli.remember("user", message, promptId=self.turn_id)

    def event(self, type_: str, **fields: object) -> None:
        if self.cli.partial and self.parent is None:
            event = {"type": type_, **fields}
            self.cli.say("stream_event", event=event, parent_tool_use_id=None)

    def begin_reply(self) -> str:
        if self.reply_id is None:
            self.reply_id, self.blocks = f"msg_{uuid.uuid4().hex[:20]}", 0
            self.event("message_start", message={"id": self.reply_id, "role": "assistant"})
        return self.reply_id

    def end_reply(self) -> None:
        self.end_block()
        calls = any(line["content"][0]["type"] == "tool_use" for line in self.message)
        self.remember("tool_use" if calls else "end_turn")
        if self.reply_id is not None:
            self.event("message_delta", delta={"stop_reason": "end_turn"})
            self.event("message_stop")
        self.reply_id = None

    def remember(self, stop_reason: str | None) -> None:
        """Write the message to the transcript: a line for each block."""
        for line in self.message:
            self.cli.remember("assistant", line | {"stop_reason": stop_reason})
        self.message.clear()

    def begin_block(self, kind: str) -> None:
        self.begin_reply()
        empty = {"type": kind, BODY[kind]: ""}
        self.event("content_block_start", index=self.blocks, content_block=empty)
        self.block = (kind, "")

    def delta(self, piece: str) -> None:
        assert self.block is not None
        kind, text = self.block
        self.block = (kind, text + piece)
        delta = {"type": f"{BODY[kind]}_delta", BODY[kind]: piece}
        self.event("content_block_delta", index=self.blocks, delta=delta)

    def end_block(self) -> None:
        if self.block is not None:
            kind, text = self.block
            self.block = None
            self.whole({"type": kind, BODY[kind]: text})
            self.event("content_block_stop", index=self.blocks)
            self.blocks += 1
            self.said = text if kind == "text" else self.said

    def whole(self, block: Json, **fields: object) -> None:
        if block["type"] == "thinking":
            block["signature"] = "ZmFrZQ=="
        message = {
            "id": self.begin_reply(),
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": [block],
            "stop_reason": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        fields |= {"message": message, "parent_tool_use_id": self.parent}
        self.cli.say("assistant", **fields)
        if self.parent is None:
            self.message.append(message)

    def do_say(self, value: str, gap_s: float = 0, *, deltas: bool = True) -> None:
        """Say a text word by word, `gap_s` apart; without `deltas` only the whole block."""
        if not deltas:
            self.whole({"type": "text", "text": value})
            self.said = value
            return
        self.begin_block("text")
        for word in re.findall(r"\S+\s*|\s+", value):
            self.delta(word)
            self.wait(gap_s)

    def do_say_more(self, value: str) -> None:
        """Go on in the block that is open."""
        self.delta(value)

    def do_think(self, value: str) -> None:
        self.begin_block("thinking")
        for word in re.findall(r"\S+\s*|\s+", value):
            self.delta(word)

    def do_sleep(self, value: float) -> None:
        self.wait(value)

    def do_attached(self, value: object = None) -> None:
        sources = [block["source"] for block in self.blocks_in if "source" in block]
        told = [f"{one['media_type']} of {len(one['data'])} characters" for one in sources]
        self.do_say(f"attached: {', '.join(told) or 'nothing'}")

    def do_recall(self, value: object = None) -> None:
        self.do_say(f"recall: {['', *self.cli.history()][-2]}")
