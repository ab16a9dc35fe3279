"""The log of a thread: appending to it and reading it (6, 7)."""

from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from starlette.responses import Response

from scuba import wire
from scuba.server.http.accept import prefers
from scuba.server.http.call import Call, Query
from scuba.server.http.replies import Streamed, reply
from scuba.server.store import Caller

NDJSON = "application/x-ndjson"

Position = Annotated[int, msgspec.Meta(ge=0, le=wire.MAX_INTEGER)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class EventsQuery(Query, frozen=True, kw_only=True):
    """Of `GET …/events` (7.1)."""

    after: Position | None = None
    before: Position | None = None
    tail: Count | None = None
    align_runs: bool = False
    run_id: str | None = None
    type: str | None = None
    """Several, with commas between them."""
    limit: Count | None = None


async def append(call: Call, caller: Caller) -> Response:
    """Append a batch, whole or not at all (6)."""
    batch = await call.events()
    key = call.header("idempotency-key")
    new, receipts = await call.store.append(
        caller, call.id("thread_id"), batch, idempotency_key=key
    )
    return reply(receipts, 201 if new else 200)


async def events(call: Call, caller: Caller) -> Response:
    """Return a page of the log (7.1), or stream it, one envelope a line (7.3)."""
    query = call.query(EventsQuery)
    page = await _page(call, caller, query)
    if prefers(call.header("accept"), NDJSON, "application/json"):
        return Streamed(_lines(call, caller, query, page), 200, {"Content-Type": NDJSON})
    return reply(page)


async def event(call: Call, caller: Caller) -> Response:
    """Return one event (7.2)."""
    return reply(await call.store.event(caller, call.id("thread_id"), call.number("seq")))


async def run(call: Call, caller: Caller) -> Response:
    """Return where a run lies and how it stands (7.2)."""
    return reply(await call.store.run(caller, call.id("thread_id"), call.id("run_id")))


async def _page(call: Call, caller: Caller, query: EventsQuery) -> wire.Page:
    return await call.store.page(
        caller,
        call.id("thread_id"),
        after=query.after,
        before=query.before,
        tail=query.tail,
        align_runs=query.align_runs,
        run_id=query.run_id,
        types=() if query.type is None else tuple(query.type.split(",")),
        limit=query.limit or 200,
    )


async def _lines(
    call: Call, caller: Caller, query: EventsQuery, page: wire.Page
) -> AsyncGenerator[bytes]:
    """Yield lines to the end of the log, or one page of them if `limit` was given.

    Raises Problem when access or token end on the way: the connection is cut, so that nobody
    takes half an export for a whole one.
    """
    while True:
        # One write a page. A stored payload has no line break.
        yield b"".join([msgspec.json.encode(envelope) + b"\n" for envelope in page.events])
        if query.limit is not None or page.next_after is None:
            return
        query = msgspec.structs.replace(query, after=page.next_after)
        await call.check_login()
        page = await _page(call, caller, query)
