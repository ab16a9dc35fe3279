"""What a harness needs to let an agent call tools of ours: what there is, and a way to call it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema of an object."""
    only_reads: bool
    """Whether it changes nothing, so that several calls may run at once."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call was made."""

    thread_id: str
    tool_call_id: str


class Answer(msgspec.Struct, frozen=True):
    """What the model is told of a call: bounded, clean, and without any secret."""

    text: str
    is_error: bool = False


class Toolbox(Protocol):
    """The tools of one bot, whoever calls them."""

    @property
    def offers(self) -> Sequence[Offer]:
        """Every tool there is, always the same."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], place: Place) -> Answer:
        """Return what a call came to. Never raises for what the call or the server does.

        Ends by itself within the toolbox's own limit. Cancelled, it stops waiting for the server.
        """
        ...
