"""What is told of one method of one route, and the forms that contents have."""

import msgspec

from scuba.server.http.call import Query


class ListOf(msgspec.Struct, frozen=True):
    """A page of a list (13)."""

    item: type[msgspec.Struct]


class Bytes(msgspec.Struct, frozen=True):
    """A body or an answer that is no JSON."""

    media_type: str


Content = type[msgspec.Struct] | ListOf | Bytes


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one route."""

    operation: str
    """Its name for programs, unique."""
    summary: str
    answers: dict[int, tuple[Content, ...]]
    """By status, each with the forms it may have; none is an answer without content."""
    query: type[Query] | None = None
    body: tuple[Content, ...] = ()
    headers: tuple[str, ...] = ()
    """Request headers with a meaning of their own."""
    refusals: str = ""
    """Codes of its own, with blanks between them."""


def one(kind: Content, *, status: int = 200) -> dict[int, tuple[Content, ...]]:
    """Return the one answer of a call that has no other."""
    return {status: (kind,)}


def made(kind: Content) -> dict[int, tuple[Content, ...]]:
    """Return the answers of what makes a thing, or finds it made."""
    return {200: (kind,), 201: (kind,)}


DONE: dict[int, tuple[Content, ...]] = {204: ()}
