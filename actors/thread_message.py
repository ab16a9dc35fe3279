"""What one message of a thread says: its text parts, and who said it."""

from collections.abc import Iterable

import msgspec

from actors.clean import clean_text
from actors.events import SeenChunk
from actors.files import File


class Texts:
    """The text parts of one message, in the order in which they began."""

    __slots__ = ("_open", "_parts")

    def __init__(self) -> None:
        self._parts: list[list[str]] = []
        self._open: dict[str, list[str]] = {}

    def read(self, chunk: SeenChunk) -> None:
        """Take in one chunk. A delta whose start never came opens its part (5.4)."""
        part_id = chunk.id or ""
        if chunk.type == "text-start" or (chunk.type == "text-delta" and part_id not in self._open):
            self._parts.append([])
            self._open[part_id] = self._parts[-1]
        if chunk.type == "text-delta" and chunk.delta:
            self._open[part_id].append(chunk.delta)
        elif chunk.type == "text-end":
            self._open.pop(part_id, None)

    @property
    def parts(self) -> list[str]:
        """The parts, each whole and clean."""
        return [clean_text("".join(part)) for part in self._parts]


class ThreadMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody else said, once nothing can be added to it."""

    principal_id: str
    text: str
    final_seq: int
    files: tuple[File, ...] = ()


def joined(texts: Iterable[str]) -> str:
    """Return the texts that are not blank, a blank line between two."""
    return "\n\n".join(text for text in texts if text.strip())
