"""The files of a message: what their author says of them, and where they are. Bounded."""

import re

import msgspec

from actors.events import SeenChunk
from actors.people import one_line

MOST_FILES = 20
"""Of one message, and of one prompt; of what is more only name and type are kept."""
URL_CHARS = 12_000_000
"""Of one message: a `data:` URL holds the file itself."""
_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}")


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file part. What it says of itself is its author's word."""

    media_type: str
    """Clean and lower-case; empty when it says none."""
    name: str = ""
    """Without directories, on one line; empty when it has none."""
    url: str | None = None
    """Where it is; None when it is not to be looked at."""
    sender: str = ""
    """Who attached it, as the agent is told."""

    def __str__(self) -> str:
        """Return name and type, for the agent."""
        name = f'"{self.name}"' if self.name else "a file"
        return f"{name} ({self.media_type or 'unknown type'})"


class Files:
    """The file parts of one message."""

    __slots__ = ("_chars", "_found")

    def __init__(self) -> None:
        self._found: list[File] = []
        self._chars = 0

    def read(self, chunk: SeenChunk) -> None:
        """Take in one chunk, of whatever kind."""
        if chunk.type != "file":
            return
        url = chunk.url or ""
        self._chars += len(url)
        keeps = self._chars <= URL_CHARS and len(self._found) < MOST_FILES
        file = File(
            media_type=media_type(chunk.media_type or ""),
            name=base_name(chunk.filename or ""),
            url=url if keeps else None,
        )
        if len(self._found) < 2 * MOST_FILES:
            self._found.append(file)

    @property
    def all(self) -> tuple[File, ...]:
        """The files so far; of a message with a great many, the first."""
        return tuple(self._found)


def media_type(text: str) -> str:
    """Return a media type without its parameters; empty when it is none."""
    found = _TYPE.match(text.strip().lower())
    return found[0] if found else ""


def base_name(text: str) -> str:
    """Return the last part of a path of whatever system, on one line (field case 13.2)."""
    return one_line(re.split(r"[/\\]", text)[-1])
