"""Blocks: the model's text and thinking, each given once though the CLI gives it twice.

The CLI streams a block's deltas and then repeats the block whole. The n-th whole block of a kind
in a message is the n-th streamed one; only what was not streamed is said again (field case 2.1).
"""

from typing import Literal, Protocol

from actors.harness import BlockEnded, TextSaid, ThoughtSaid
from scuba.harness.claude.frames import ApiEvent, Block
from scuba.harness.claude.values import REPLACEMENT

Kind = Literal["text", "thinking"]


class Said(Protocol):
    """A list of words, whatever else may be in it."""

    def append(self, word: TextSaid | ThoughtSaid | BlockEnded, /) -> None:
        """Add a word."""
        ...


KINDS: dict[str, Kind] = {
    "text": "text",
    "thinking": "thinking",
    "text_delta": "text",
    "thinking_delta": "thinking",
}


class Streamed:
    """One block of which something was said. `length`: how many characters."""

    __slots__ = ("block_id", "closed", "kind", "length", "parts")

    def __init__(self, block_id: str, kind: Kind) -> None:
        self.block_id, self.kind = block_id, kind
        self.parts: list[str] = []
        self.length = 0
        self.closed = False


class Blocks:
    """The blocks of the message in hand. Block ids never repeat within a session."""

    def __init__(self) -> None:
        self._made = 0
        self._message_id = ""
        self._by_index: dict[int, Streamed] = {}
        self._known: dict[Kind, list[Streamed]] = {"text": [], "thinking": []}
        self._wholes: dict[Kind, int] = {"text": 0, "thinking": 0}
        self._open: Streamed | None = None

    def stream(self, event: ApiEvent, said: Said) -> None:
        """Take one event of the model's stream. Deltas are held until `flush`."""
        if event.type == "content_block_delta" and event.delta is not None:
            delta = event.delta
            self._more(event.index, delta.type, delta.text or delta.thinking, said)
        elif event.type == "content_block_start" and event.content_block is not None:
            start = event.content_block
            self._by_index.pop(event.index, None)
            self._more(event.index, start.type, start.text or start.thinking, said)
        elif event.type == "message_start" and event.message is not None:
            self.flush(said)
            self._begin(event.message.id)

    def _more(self, index: int, type_: str, text: str, said: Said) -> None:
        """Hold more text of a block; a block begins with its first text, so none is empty."""
        if not text:
            return
        block = self._by_index.get(index)
        if block is None:
            kind = KINDS.get(type_)
            if kind is None:
                return
            block = self._by_index[index] = self._new(kind)
        if block is not self._open:
            self.flush(said)
            self._open = block
        block.parts.append(text)

    def flush(self, said: Said) -> None:
        """Say what is held."""
        block, self._open = self._open, None
        if block is not None:
            text = "".join(block.parts)
            block.parts.clear()
            self._say(block, text, said)

    def whole(self, message_id: str, block: Block, said: Said) -> None:
        """Take a complete block: say what of it was not streamed, and that it has ended."""
        kind = KINDS.get(block.type)
        if kind is None:
            return
        if message_id != self._message_id:
            self._begin(message_id)
        text = block.text if kind == "text" else block.thinking
        if not text:
            return
        at = self._wholes[kind]
        self._wholes[kind] = at + 1
        known = self._known[kind]
        streamed = known[at] if at < len(known) else self._new(kind)
        self._say(streamed, text[streamed.length :], said)
        streamed.closed = True
        said.append(BlockEnded(streamed.block_id))

    def forget(self) -> None:
        """The turn is over: what follows belongs to no block of it."""
        self._open = None
        self._begin("")

    def _begin(self, message_id: str) -> None:
        self._message_id = message_id
        self._by_index.clear()
        self._known = {"text": [], "thinking": []}
        self._wholes = {"text": 0, "thinking": 0}

    def _new(self, kind: Kind) -> Streamed:
        self._made += 1
        block = Streamed(f"b{self._made}", kind)
        self._known[kind].append(block)
        return block

    def _say(self, block: Streamed, text: str, said: Said) -> None:
        if block.closed or not text:
            return
        block.length += len(text)
        if "\0" in text:
            text = text.replace("\0", REPLACEMENT)
        said.append((TextSaid if block.kind == "text" else ThoughtSaid)(block.block_id, text))
