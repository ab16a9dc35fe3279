"""Tools for artifacts, offered only where the server's extension is exactly ours (11.2).

A name is text and never a path, and nothing is written to this machine's disk.
"""

from typing import Annotated

import msgspec

from actors.ports import Refused
from scuba import wire
from scuba.bubble import BubbleClient
from scuba.tools.reading import one_line
from scuba.tools.tool import ID_CHARACTERS, Arguments, Call, Mistake, ThreadId, Tool

READ_BYTES = 100_000
WRITE_CHARACTERS = 400_000
NAME_CHARACTERS = 200
"""What the server takes (11.2)."""
MOST_LISTED = 200
MEDIA_TYPE = r"^[A-Za-z0-9_.+-]+/[A-Za-z0-9_.+-]+(; ?[A-Za-z0-9_.+-]+=[A-Za-z0-9_.+-]+)*$"
NOT_THE_RUN = frozenset({"run_not_found", "run_finished", "not_your_run"})
"""Why a version cannot be part of our run; it can be made without."""

ArtifactId = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS)]


class List(Arguments, frozen=True, kw_only=True):
    """Of `list_artifacts`."""

    thread_id: ThreadId | None = None


class Read(Arguments, frozen=True, kw_only=True):
    """Of `read_artifact`."""

    artifact_id: ArtifactId
    version: (
        Annotated[int, msgspec.Meta(ge=1, description="Leave it out for the latest.")] | None
    ) = None


class Write(Arguments, frozen=True, kw_only=True):
    """Of `write_artifact`."""

    text: Annotated[str, msgspec.Meta(max_length=WRITE_CHARACTERS)]
    name: (
        Annotated[
            str,
            msgspec.Meta(
                min_length=1,
                max_length=NAME_CHARACTERS,
                description="For a new artifact: a plain file name, such as report.md.",
            ),
        ]
        | None
    ) = None
    artifact_id: (
        Annotated[
            ArtifactId, msgspec.Meta(description="For a new version: the artifact that is there.")
        ]
        | None
    ) = None
    after_version: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0,
                description="For a new version: the latest one that you have read. If there is a "
                "later one by now, nothing is written.",
            ),
        ]
        | None
    ) = None
    media_type: Annotated[str, msgspec.Meta(pattern=MEDIA_TYPE, max_length=200)] = "text/plain"
    thread_id: ThreadId | None = None


async def listing(client: BubbleClient, call: Call, asked: List) -> str:
    """Return the artifacts of a thread."""
    thread_id = asked.thread_id or call.thread_id
    found = await client.shelf.artifacts(thread_id, limit=MOST_LISTED)
    if not found.items:
        return f"{thread_id} has no artifacts."
    more = ["There are more."] if found.next_cursor else []
    return "\n".join([*map(_line, found.items), *more])


def _line(one: wire.Artifact) -> str:
    name = one_line(one.name, NAME_CHARACTERS)
    version = f"version {one.latest_version}" if one.latest_version else "no version yet"
    return f"{one.artifact_id} {name!r} ({one.media_type}, {version}, by {one.created_by})"


async def read(client: BubbleClient, _call: Call, asked: Read) -> str:
    """Return the text of a version."""
    found = await client.shelf.artifact(asked.artifact_id)
    number = asked.version or found.latest_version
    version = next((one for one in found.versions or () if one.version == number), None)
    if version is None:
        raise Mistake(f"There is no version {number}; the latest is {found.latest_version}.")
    name = one_line(found.name, NAME_CHARACTERS)
    head = f"{name!r}, version {number} ({version.media_type}, {version.size} bytes)"
    if not version.size:
        return f"{head}: empty."
    content = await client.shelf.content(asked.artifact_id, number, READ_BYTES)
    text = _text(content, is_whole=version.size <= len(content))
    if text is None:
        return f"{head}: not a text."
    cut = "" if version.size <= len(content) else f"; the first {len(content)} bytes of it"
    return f"{head}{cut}:\n\n{text}"


def _text(content: bytes, *, is_whole: bool) -> str | None:
    """Return bytes as text; a beginning may end within a character. None when they are none."""
    for end in range(len(content), max(len(content) - (1 if is_whole else 4), -1), -1):
        try:
            text = content[:end].decode()
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


async def write(client: BubbleClient, call: Call, asked: Write) -> str:
    """Make an artifact, or its next version; nothing that is there changes."""
    if (asked.name is None) == (asked.artifact_id is None):
        raise Mistake("Give exactly one of name and artifact_id.")
    content = asked.text.encode()
    if asked.artifact_id is not None:
        if asked.after_version is None:
            raise Mistake("Give after_version, the latest version that you have read.")
        return await _add(client, call, asked, asked.artifact_id, asked.after_version, content)
    new = wire.NewArtifact(
        name=asked.name or "", media_type=asked.media_type.strip(), key=call.key("artifact")
    )
    made = await client.shelf.create(asked.thread_id or call.thread_id, new)
    return await _add(client, call, asked, made.artifact_id, 0, content)


async def _add(
    client: BubbleClient, call: Call, asked: Write, artifact_id: str, after: int, content: bytes
) -> str:
    async def add(run_id: str | None) -> wire.ArtifactVersion:
        return await client.shelf.add_version(
            artifact_id,
            content,
            media_type=asked.media_type.strip(),
            after=after,
            key=call.key("version"),
            run_id=run_id,
        )

    try:
        made = await add(call.run_id)
    except Refused as refused:
        if call.run_id is None or refused.code not in NOT_THE_RUN:
            raise
        made = await add(None)  # of another thread, or not begun in the server's eyes
    return f"Wrote version {made.version} of {artifact_id}, {made.size} bytes."


TOOLS = (
    Tool(
        "list_artifacts",
        "List the artifacts (files that belong to a Bubble thread) of this thread, or thread_id.",
        List,
        listing,
        only_reads=True,
    ),
    Tool(
        "read_artifact",
        "Read the text of an artifact on Bubble, its latest version or another one.",
        Read,
        read,
        only_reads=True,
    ),
    Tool(
        "write_artifact",
        "Write a text as an artifact on Bubble: a new one with `name`, or the next version with "
        "`artifact_id` and `after_version`. Earlier versions stay.",
        Write,
        write,
    ),
)
