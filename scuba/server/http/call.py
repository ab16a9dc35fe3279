"""One HTTP call: who asks, with what, and the limits both have to keep."""

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from scuba import wire
from scuba.errors import Problem
from scuba.server.apart import apart
from scuba.server.config import BATCH_ROOM_BYTES, ServerConfig
from scuba.server.decode import decode, decode_events, decode_query
from scuba.server.http.cursors import Cursors
from scuba.server.http.replies import reply
from scuba.server.http.uploads import Uploads
from scuba.server.login import Logins, too_many, visit
from scuba.server.rates import Buckets
from scuba.server.readiness import Readiness
from scuba.server.store import Caller, Store

T = TypeVar("T", bound=msgspec.Struct)

_JSON = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)


class Query(wire.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a call; an unknown one is a mistake, not a wish."""


class ListQuery(Query, frozen=True, kw_only=True):
    """How every list is paged (13)."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 200
    cursor: str | None = None


class Parts(msgspec.Struct, frozen=True):
    """What all calls share."""

    store: Store
    config: ServerConfig
    logins: Logins
    cursors: Cursors
    requests: Buckets
    appends: Buckets
    uploads: Uploads
    readiness: Readiness


class Call:
    """A request with its parts at hand. Its methods raise Problem for what cannot be served."""

    def __init__(self, parts: Parts, request: Request) -> None:
        self.parts, self.store = parts, parts.store
        self._request = request

    def id(self, name: str) -> str:
        """Return an id of the path."""
        return str(self._request.path_params[name])

    def number(self, name: str) -> int:
        """Return a number of the path; what is none is not there (404)."""
        text = self.id(name)
        if not re.fullmatch(r"[0-9]{1,16}", text):
            raise Problem(404, "not_found", f"{name} is not a number")
        return int(text)

    @property
    def method(self) -> str:
        """Return the method of the request."""
        return self._request.method

    def header(self, name: str) -> str | None:
        """Return a header, or None."""
        return self._request.headers.get(name)

    def query(self, kind: type[T]) -> T:
        """Return the query parameters (`invalid_query`)."""
        return decode_query(self._request.query_params.multi_items(), kind)

    async def caller(self, *, appends: bool = False) -> Caller:
        """Return who asks, one request later in the account of that principal (2.2, 12)."""
        caller = await self.check_login()
        bucket = self.parts.appends if appends else self.parts.requests
        wait_s = bucket.take(caller.principal.principal_id)
        if wait_s:
            raise too_many(wait_s, "too many requests")
        return caller

    async def check_login(self) -> Caller:
        """Return whose token it is that came with this call, and still good (2.2)."""
        request_id = str(self._request.state.request_id)
        trusted_proxy = self.parts.config.trusted_proxy
        shown = visit(self._request.scope, request_id=request_id, trusted_proxy=trusted_proxy)
        return await self.parts.logins.caller(shown)

    async def body(self, kind: type[T]) -> T:
        """Return the body (`invalid_json`, `invalid_text`, 413, 415)."""
        raw = await self._bytes(wire.BODY_BYTES, "body_too_large")
        return await apart(len(raw), partial(decode, raw, kind))

    async def events(self) -> wire.NewEvents:
        """Return the batch to append (`invalid_event`, `batch_too_large`, and as for a body)."""
        limit = self.parts.config.limits.batch_bytes + BATCH_ROOM_BYTES
        raw = await self._bytes(limit, "batch_too_large")
        return await apart(len(raw), partial(decode_events, raw))

    async def listing(
        self,
        caller: Caller,
        query: ListQuery,
        fetch: Callable[[int, str | None], Awaitable[tuple[list[Any], str | None]]],
    ) -> Response:
        """Answer one page of what `fetch(limit, place)` returns with the next place (13)."""
        return reply(await self.page(caller, query, fetch))

    async def page(
        self,
        caller: Caller,
        query: ListQuery,
        fetch: Callable[[int, str | None], Awaitable[tuple[list[Any], str | None]]],
    ) -> wire.Items:
        """Return that page."""
        cursors = self.parts.cursors
        bound = self._bound(caller)
        place = None if query.cursor is None else cursors.open(query.cursor, bound)
        items, more = await fetch(query.limit, place)
        return wire.Items(
            items=items, next_cursor=None if more is None else cursors.seal(more, bound)
        )

    def _bound(self, caller: Caller) -> str:
        """Return what a cursor is good for: this caller, this path, these filters."""
        asked = sorted(self._request.query_params.multi_items())
        filters = [pair for pair in asked if pair[0] not in ("cursor", "limit")]
        return json.dumps([caller.principal.principal_id, self._request.url.path, filters])

    def may_exceed(self, size_bytes: int) -> bool:
        """Return whether the body may turn out larger than this, by what its head says."""
        told = self.header("content-length")
        return told is None or not told.isdecimal() or int(told) > size_bytes

    async def pieces(self, limit: int, code: str) -> AsyncGenerator[bytes]:
        """Yield the body as it comes. Raises Problem 413 beyond `limit` bytes."""
        too_large = Problem(413, code, f"the body is larger than {limit} bytes")
        if self.header("content-length") is not None and self.may_exceed(limit):
            raise too_large
        taken = 0
        async with aclosing(self._request.stream()) as pieces:
            async for piece in pieces:
                taken += len(piece)
                if taken > limit:
                    raise too_large
                yield piece

    async def _bytes(self, limit: int, code: str) -> bytes:
        if not _JSON.fullmatch(self.header("content-type") or ""):
            raise Problem(415, "unsupported_media_type", "Content-Type must be application/json")
        async with aclosing(self.pieces(limit, code)) as pieces:
            return b"".join([piece async for piece in pieces])
