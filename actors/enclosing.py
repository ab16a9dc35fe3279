"""The files of a prompt, opened: what the agent is shown, and what it is only told of.

A file is in a `data:` URL, or it is an artifact of the thread. Nothing else is fetched (13.4).
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from actors.attachments import MOST_BYTES, NOT_SHOWN, TOO_BIG, attachment, data_of, may_be_shown
from actors.files import MOST_FILES, File
from actors.harness import Attachment
from actors.ports import Refused

READ_S = 20.0
"""Longest wait for all files of a prompt; then the turn begins without the rest."""
TOO_MANY = "there are too many"
NOT_READ = "it could not be read"
NOT_FETCHED = "nothing is fetched from where it is"

Fetch = Callable[[str, int], Awaitable[bytes | None]]
"""Returns what an artifact of the thread holds, if it is no bigger than so many bytes; None for an
address of anything else. Raises Refused."""


class Enclosed(msgspec.Struct, frozen=True):
    """What goes with a prompt, and what is said of the rest."""

    attachments: tuple[Attachment, ...] = ()
    notes: tuple[str, ...] = ()

    def noted(self, text: str) -> str:
        """Return the text with what is to be said of files that are not shown."""
        return "\n\n".join(filter(None, [text, "\n".join(self.notes)]))


async def enclose(files: Sequence[File], fetch: Fetch) -> Enclosed:
    """Return the files, each shown or told of, in order."""
    opened: list[Attachment | str] = [NOT_READ] * len(files)
    with trio.move_on_after(READ_S):
        room = MOST_BYTES
        for number, file in enumerate(files):
            opened[number] = TOO_MANY if number >= MOST_FILES else await _open(file, fetch, room)
            if isinstance(found := opened[number], Attachment):
                room -= len(found.data)
    pairs = list(zip(files, opened, strict=True))
    return Enclosed(
        tuple(found for _, found in pairs if isinstance(found, Attachment)),
        tuple(
            f"[scuba] {file.sender} attached {file}, which is not passed on: {found}."
            for file, found in pairs
            if isinstance(found, str)
        ),
    )


async def _open(file: File, fetch: Fetch, room: int) -> Attachment | str:
    if file.url is None:
        return TOO_MANY
    if not may_be_shown(file):
        return NOT_SHOWN
    if file.url[:5].lower() == "data:":
        data = data_of(file.url)
        if data is None:
            return NOT_READ
    else:
        try:
            data = await fetch(file.url, room)
        except Refused as refused:
            return TOO_BIG if refused.code == "too_big" else NOT_READ
        if data is None:
            return NOT_FETCHED
    return TOO_BIG if len(data) > room else attachment(file, data)
