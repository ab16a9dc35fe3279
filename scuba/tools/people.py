"""Tools for principals: find somebody, invite somebody. A model gives no role but `member`."""

from typing import Annotated

import msgspec

from scuba import wire
from scuba.bubble import BubbleClient
from scuba.tools.reading import one_line
from scuba.tools.tool import ID_CHARACTERS, Arguments, Call, ThreadId, Tool

QUERY_CHARACTERS = 128
"""What the server takes (2.6)."""
NAME_CHARACTERS = 100
MOST_FOUND = 50


class Search(Arguments, frozen=True, kw_only=True):
    """Of `search_principals`."""

    query: Annotated[
        str,
        msgspec.Meta(
            max_length=QUERY_CHARACTERS,
            description="Part of an id or name; empty for everybody you may find.",
        ),
    ] = ""
    kind: wire.PrincipalKind | None = None


class Invite(Arguments, frozen=True, kw_only=True):
    """Of `invite_to_thread`. It has no role: an invite makes a member."""

    principal_id: Annotated[str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS)]
    thread_id: ThreadId | None = None


async def search(client: BubbleClient, _call: Call, asked: Search) -> str:
    """Return whom the bot may find, by id and name."""
    found = await client.find_principals(asked.query, kind=asked.kind, limit=MOST_FOUND)
    if not found.items:
        return "Nobody is found. Only who is discoverable, or yours, can be."
    lines = [_line(one) for one in found.items]
    more = ["There are more: search for less."] if found.next_cursor else []
    return "\n".join([*lines, *more])


def _line(one: wire.Principal) -> str:
    name = f", {one_line(one.display_name, NAME_CHARACTERS)!r}" if one.display_name else ""
    return f"{one.principal_id} ({one.kind}{name})"


async def invite(client: BubbleClient, call: Call, asked: Invite) -> str:
    """Make somebody a member of a thread."""
    thread_id = asked.thread_id or call.thread_id
    new = wire.NewInvite(principal_id=asked.principal_id, key=call.key("invite"))
    grant = await client.invite(thread_id, new)
    return f"{asked.principal_id} takes part in {thread_id} as {grant.role or 'member'}."


TOOLS = (
    Tool(
        "search_principals",
        "Find people and bots on Bubble by id or name, to invite them.",
        Search,
        search,
        only_reads=True,
    ),
    Tool(
        "invite_to_thread",
        "Invite somebody to a Bubble thread as a member: this one, or thread_id. From then on "
        "they read all of it.",
        Invite,
        invite,
    ),
)
