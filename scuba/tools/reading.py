"""Events as an agent reads them: who said what, newest last, as much as fits."""

from collections.abc import Iterable, Sequence

import msgspec

from actors.clean import clean_text
from actors.events import Event, Part
from actors.quoting import quote, shortened
from actors.thread_message import Texts, joined

MESSAGE_CHARACTERS = 4_000
PAGE_CHARACTERS = 24_000


class Message(msgspec.Struct, frozen=True):
    """A bare message or a run, as far as the page has it."""

    principal_id: str
    seq: int
    """Of its first event here."""
    text: str


class _Reader:
    def __init__(self, first: Event) -> None:
        self.principal_id, self.seq = first.principal_id, first.seq
        self.texts = Texts()

    def message(self) -> Message:
        text = joined(part.strip() for part in self.texts.parts)
        return Message(self.principal_id, self.seq, shortened(text, MESSAGE_CHARACTERS))


def messages(events: Iterable[Event]) -> list[Message]:
    """Return what these events say, in the order in which it began; thinking and tools left out."""
    found: dict[str, _Reader] = {}
    for event in events:
        if event.run_id is not None and isinstance(event.body, Part):
            reader = found.setdefault(event.run_id, _Reader(event))
            reader.texts.read(event.body.chunk)
    read = (reader.message() for reader in found.values())
    return [message for message in read if message.text]


def newest(said: Sequence[Message], most: int) -> list[Message]:
    """Return at most `most` of the newest that fit together; one always does."""
    kept: list[Message] = []
    room = PAGE_CHARACTERS
    for message in reversed(said[-most:]):
        room -= len(message.text)
        if kept and room < 0:
            break
        kept.append(message)
    return kept[::-1]


def quoted(said: Iterable[Message]) -> str:
    """Return messages as text; each line that somebody wrote is marked, and passes for no other."""
    blocks = ("\n".join([f"[{m.seq}] {m.principal_id}:", *quote(m.text)]) for m in said)
    return "\n\n".join(blocks)


def one_line(text: str, most: int) -> str:
    """Return a text as one clean line of at most `most` characters."""
    return " ".join(clean_text(text).split())[:most].rstrip()
