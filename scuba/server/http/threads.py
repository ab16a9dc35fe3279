"""Threads and subthreads (4)."""

from typing import Any

from starlette.responses import Response

from scuba import wire
from scuba.server.http.call import Call, ListQuery
from scuba.server.http.replies import reply
from scuba.server.spelling import spelled
from scuba.server.store import Caller


class ThreadsQuery(ListQuery, frozen=True, kw_only=True):
    """Of `GET /v1/threads` (4.3)."""

    parent_thread_id: str | None = None
    archived: bool | None = None


async def create_thread(call: Call, caller: Caller) -> Response:
    """Make a thread, owned by the caller (4.2)."""
    new, thread = await call.store.create_thread(caller, await call.body(wire.NewThread))
    return _created(new, thread)


async def create_subthread(call: Call, caller: Caller) -> Response:
    """Make a thread below one; the same key, the same thread (4.2)."""
    wanted = await call.body(wire.NewSubthread)
    new, thread = await call.store.create_subthread(caller, call.id("thread_id"), wanted)
    return _created(new, thread)


async def threads(call: Call, caller: Caller) -> Response:
    """List the threads the caller takes part in, newest activity first (4.3)."""
    query = call.query(ThreadsQuery)

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        return await call.store.threads(
            caller,
            parent=query.parent_thread_id,
            archived=query.archived,
            limit=limit,
            after=after,
        )

    return await call.listing(caller, query, fetch)


async def thread(call: Call, caller: Caller) -> Response:
    """Show a thread, who is on it and what runs (4.3)."""
    return reply(await call.store.thread(caller, call.id("thread_id")))


async def change_thread(call: Call, caller: Caller) -> Response:
    """Change a thread's title or settings, or archive it (4.3)."""
    change = await call.body(wire.ThreadChange)
    thread = await call.store.change_thread(caller, call.id("thread_id"), change)
    return reply({"thread": spelled(thread)})


def _created(new: bool, thread: wire.Thread) -> Response:
    return reply({"thread": spelled(thread)}, 201 if new else 200)
