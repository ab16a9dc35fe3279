"""What the client commands share: a client for a while, and appending that survives a hiccup."""

import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec
import trio

from actors.ports import Unavailable
from scuba import log, wire
from scuba.bubble import BubbleClient
from scuba.cli.connection import Connection

APPEND_TRIES = 4
PAUSE_S = 1.0


@asynccontextmanager
async def open_client(connection: Connection) -> AsyncGenerator[BubbleClient]:
    """Open a client that leaves nothing but graver log lines, on stderr."""
    log.configure("warning", pretty=True, stream=sys.stderr)
    log.register_secret(connection.token.reveal())
    async with BubbleClient(connection.url, connection.token.reveal()) as client:
        yield client


def new_event(kind: str, run_id: str, payload: object, key: str | None = None) -> wire.NewEvent:
    """Return an event with a key, so that it may be sent again (6.2)."""
    return wire.NewEvent(
        type=kind,
        run_id=run_id,
        payload=msgspec.Raw(msgspec.json.encode(payload)),
        key=key or f"cli-{uuid.uuid4().hex}",
    )


async def append(
    client: BubbleClient, thread_id: str, events: Sequence[wire.NewEvent]
) -> wire.Receipts:
    """Append all or nothing, a few times if the server is unavailable; the keys make it once."""
    for _ in range(APPEND_TRIES - 1):
        try:
            return await client.append(thread_id, events)
        except Unavailable as error:
            await trio.sleep(min(error.retry_after_s or PAUSE_S, 10 * PAUSE_S))
    return await client.append(thread_id, events)
