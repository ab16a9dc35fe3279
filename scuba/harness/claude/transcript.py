"""What Claude Code's own transcript shows of one prompt: `read_evidence`, which never raises.

The transcript is `<config dir>/projects/<slug of cwd>/<session id>.jsonl`, one JSON object a line,
only ever appended to; a resumed session goes on in the same file. What was measured, and what
follows from it, is in `docs/decisions/0020-evidence-from-the-transcript.md`. In short: the prompt's
line (its uuid is ours) is written within 0.1 s, before any tool runs for it; the lines of a
message, one for each content block and each with the `stop_reason` of the whole, are written when
it is complete, those of a call before the tool runs, those of the answer before the turn has ended.
"""

import logging
import stat
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from actors.ports import Evidence
from scuba.harness.claude.mapping import SYNTHETIC
from scuba.harness.claude.values import clean, load

logger = logging.getLogger(__name__)

LINE_BYTES = 16 << 20
"""A longer line is skipped: no prompt and no answer is that long, only what a tool printed."""
ENDS = frozenset({"end_turn", "stop_sequence"})
"""Why a message stopped after which the CLI asks the model for nothing more."""
PROMPTS = uuid.UUID("6f4b6a52-9c0e-4d0f-8f3b-0d8f6f0f5a1e")
"""The namespace of prompt ids that are no UUIDs."""


class Kind(msgspec.Struct):
    """Enough of a line to know whether to read it."""

    type: str = ""


class Block(msgspec.Struct):
    """A content block."""

    type: str
    text: str = ""
    name: str = ""


class Message(msgspec.Struct):
    """A message of the conversation, or (from the assistant) one block of it."""

    content: str | list[Block]
    model: str = ""
    stop_reason: str | None = None

    @property
    def blocks(self) -> Sequence[Block]:
        """Return the content as blocks."""
        return [Block("text", self.content)] if isinstance(self.content, str) else self.content


class Line(msgspec.Struct, rename="camel"):
    """A line of type `user` or `assistant`."""

    type: str
    message: Message
    uuid: str = ""
    prompt_id: str | None = None
    """The CLI's own name for a turn, on its prompt and on what else comes as from the user."""
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False


_READ = ("user", "assistant")
_KIND = msgspec.json.Decoder(Kind)
_LINE = msgspec.json.Decoder(Line)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Reading:
    """Follows a transcript for one prompt, from its line to the next prompt. No I/O."""

    def __init__(self, known_as: str) -> None:
        self._known_as = known_as
        self._prompt: Line | None = None
        self._ended = self._over = False
        self._texts: list[str] = []
        self._tools: list[str] = []

    @property
    def seen(self) -> bool:
        """Return whether the prompt has come by."""
        return self._prompt is not None

    @property
    def evidence(self) -> Evidence:
        """Return what the lines so far show."""
        if not self.seen:
            return Evidence(fate="unseen")
        return Evidence(
            fate="answered" if self._ended else "unfinished",
            texts=tuple(self._texts),
            tools=tuple(self._tools),
        )

    def feed(self, raw: bytes) -> None:
        """Take the next line; what cannot be read, or is of no interest, changes nothing."""
        if self._over or not (self.seen or self._known_as.encode() in raw):
            return
        line = _decode(raw)
        if line is None or line.is_sidechain:
            return
        if line.type == "assistant":
            if self.seen and line.message.model != SYNTHETIC:
                self._assistant(line.message)
        elif line.uuid == self._known_as:
            self._prompt = line
        elif self._prompt is not None:
            self._over = _begins_another(line, self._prompt)
            self._ended = self._ended and self._over  # within the turn, the model is asked on

    def _assistant(self, message: Message) -> None:
        texts = [clean(block.text) for block in message.blocks if block.type == "text"]
        self._texts += filter(None, texts)
        self._tools += [block.name for block in message.blocks if block.type.endswith("tool_use")]
        # Thinking is not the answer: the line with the text may have been cut off.
        self._ended = message.stop_reason in ENDS and (self._ended or bool(texts))


def _begins_another(line: Line, prompt: Line) -> bool:
    """Return whether a user's line belongs to a later turn than the prompt's."""
    if line.prompt_id and prompt.prompt_id:
        return line.prompt_id != prompt.prompt_id
    written_by_cli = line.is_meta or line.is_compact_summary
    return isinstance(line.message.content, str) and not written_by_cli


def _decode(raw: bytes) -> Line | None:
    try:
        return _LINE.decode(raw) if _KIND.decode(raw).type in _READ else None
    except _UNREADABLE:
        data = load(raw)  # half a character is no reason to miss an answer
    try:
        return msgspec.convert(data, Line) if data and data.get("type") in _READ else None
    except (msgspec.ValidationError, RecursionError):
        return None


def recorded_as(prompt_id: str) -> str:
    """Return the UUID under which a prompt is given to the CLI, and found in its transcript."""
    try:
        if str(uuid.UUID(prompt_id)) == prompt_id:
            return prompt_id
    except ValueError:
        pass
    return str(uuid.uuid5(PROMPTS, prompt_id))


def read_evidence(config_dir: Path, session_id: str | None, prompt_id: str) -> Evidence:
    """Return what the transcripts below a thread's configuration show of a prompt. Blocks.

    The session's own comes first, then the newest: its id may have changed, or not been known yet.
    """
    known_as = recorded_as(prompt_id)
    try:
        paths = _transcripts(config_dir / "projects", session_id)
    except FileNotFoundError:
        # No CLI ever wrote here. If none was started here either, a session's record is lost.
        lost = session_id is not None and not config_dir.is_dir()
        return Evidence(fate="unknown" if lost else "unseen")
    except OSError as error:
        logger.warning("transcripts cannot be listed: %s", error)
        return Evidence(fate="unknown")
    unreadable = False
    for path in paths:
        reading = Reading(known_as)
        try:
            with path.open("rb") as file:
                for raw in _lines(file):
                    reading.feed(raw)
        except OSError as error:
            logger.warning("transcript cannot be read: %s", error)
            unreadable = True
        if reading.seen:
            return reading.evidence
    return Evidence(fate="unknown" if unreadable else "unseen")


def _transcripts(projects: Path, session_id: str | None) -> Sequence[Path]:
    """Return the transcripts in the order in which to look. Raises OSError."""
    folders = [path for path in projects.iterdir() if path.is_dir()]
    paths = [path for folder in folders for path in folder.iterdir() if path.suffix == ".jsonl"]
    found = [(path.stem == session_id, at, path) for path in paths if (at := _written_at(path))]
    return [path for _, _, path in sorted(found, reverse=True)]


def _written_at(path: Path) -> float | None:
    """Return when a file was last written; None for what is no file (a pipe would never end)."""
    try:
        about = path.stat()
    except OSError:
        return 1.0  # opening it will say why
    return (about.st_mtime or 1.0) if stat.S_ISREG(about.st_mode) else None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not too long, the last one also without its line feed."""
    begins = True
    while piece := file.readline(LINE_BYTES):
        ends = piece.endswith(b"\n")
        if begins and (ends or len(piece) < LINE_BYTES):
            yield piece
        begins = ends
