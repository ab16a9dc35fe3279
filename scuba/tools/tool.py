"""A tool: what the model is told of it, what it may be given, and what it does."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from actors.clean import clean_text
from scuba.bubble import BubbleClient
from scuba.tools.port import Offer

ID_CHARACTERS = 400
"""Longer than any id of ours; the server decides what an id is."""

ThreadId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=ID_CHARACTERS,
        description="The thread. Leave it out for the one you are working on.",
    ),
]
OtherThreadId = Annotated[
    str, msgspec.Meta(min_length=1, max_length=ID_CHARACTERS, description="The other thread.")
]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool is given. The model may know no other names."""


class Mistake(Exception):
    """The call cannot be made as it is; says why, to the model."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call: who made it, and the keys under which it changes anything."""

    thread_id: str
    run_id: str | None
    """None where the call is part of no run in hand."""
    tool_call_id: str

    def key(self, step: str) -> str:
        """Return the key of one step: the same for the same call, however often it is tried."""
        ids = "\0".join((self.thread_id, self.run_id or "", self.tool_call_id, step))
        return f"tool-{hashlib.sha256(ids.encode()).hexdigest()[:40]}"


A = TypeVar("A", bound=Arguments)


class Tool(Generic[A]):
    """One line of the table of tools. `run` may be repeated: all it changes is keyed."""

    def __init__(
        self,
        name: str,
        description: str,
        takes: type[A],
        run: Callable[[BubbleClient, Call, A], Awaitable[str]],
        *,
        only_reads: bool = False,
    ) -> None:
        self._takes, self._run = takes, run
        self.offer = Offer(
            name=name,
            description=description,
            input_schema=_schema(takes),
            only_reads=only_reads,
        )

    def prepare(
        self, client: BubbleClient, call: Call, arguments: Mapping[str, Any]
    ) -> Callable[[], Awaitable[str]]:
        """Return what makes the call. Raises Mistake for arguments that are not as told.

        Texts are cleaned as all that leaves for the server is.
        """
        clean = {n: clean_text(v) if isinstance(v, str) else v for n, v in arguments.items()}
        try:
            asked = msgspec.convert(clean, self._takes)
        except msgspec.ValidationError as error:
            raise Mistake(f"The arguments are wrong: {error}.") from error
        return lambda: self._run(client, call, asked)


def _schema(takes: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of a flat struct, without a reference in it."""
    _, components = msgspec.json.schema_components([takes])
    schema = dict(components[takes.__name__])
    return {name: value for name, value in schema.items() if name not in ("title", "description")}
