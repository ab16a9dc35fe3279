"""Consumer cursors: how far the readers of a thread have come (10)."""

from typing import Any

from starlette.responses import Response

from scuba import wire
from scuba.server.http.call import Call, ListQuery
from scuba.server.http.replies import reply
from scuba.server.store import Caller


async def put_cursor(call: Call, caller: Caller) -> Response:
    """Move a cursor of the caller, never back; answer where it stands."""
    wanted = await call.body(wire.CursorPosition)
    consumers, thread_id = call.store.consumers, call.id("thread_id")
    held = await consumers.put(caller, thread_id, call.id("consumer"), wanted.seq)
    return reply(wire.CursorPosition(seq=held))


async def cursors(call: Call, caller: Caller) -> Response:
    """List the cursors of those who take part."""
    query = call.query(ListQuery)

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        thread_id = call.id("thread_id")
        return await call.store.consumers.listing(caller, thread_id, limit=limit, after=after)

    return await call.listing(caller, query, fetch)
