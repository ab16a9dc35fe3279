"""One prompt of several messages: who said what, in a form that nobody can forge.

Pure. As soon as there is anything to tell apart, every line that somebody wrote is quoted; a line
that is not quoted is scuba's. What one person says to the bot alone stays as it is.
"""

from collections.abc import Sequence

import msgspec

from actors.people import People, who
from actors.quoting import quote
from actors.thread_message import ThreadMessage, joined

SEVERAL = (
    "[scuba] More than one participant wrote. Each message stands below its author, with every "
    "line of it quoted."
)


class Prompt(msgspec.Struct, frozen=True):
    """What the agent is asked, and up to where that answers the thread."""

    text: str
    through_seq: int


def compose(messages: Sequence[ThreadMessage], people: People) -> str:
    """Return what the agent is asked; empty when nobody wrote any text."""
    said = [message for message in messages if message.text]
    if len({message.principal_id for message in said}) < 2:
        return joined(message.text for message in said)
    return "\n".join([SEVERAL, *_labelled(said, people)])


def _labelled(messages: Sequence[ThreadMessage], people: People) -> list[str]:
    lines: list[str] = []
    for message in messages:
        lines += ["", f"{who(message.principal_id, people)} wrote:", *quote(message.text)]
    return lines
