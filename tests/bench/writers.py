"""Many who append over HTTP, as cheap as can be: bytes are sent, answers are counted."""

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import trio

from tests.bench.serving import Served

_KEYS = itertools.count()
_EVENT = (
    '{"type":"message_part","runId":"%s","key":"k%d","payload":{"chunk":{"type":"text-delta",'
    '"id":"t1","delta":"' + "x" * 120 + '"}}}'
)
_START = '{"events":[{"type":"run_started","runId":"%s","key":"k%d"}]}'
DELTA = '{"chunk":{"type":"text-delta","id":"t1","delta":"' + "x" * 120 + '"}}'
"""The payload of every event that a bench of appends makes."""


async def append_for(served: Served, writers: int, batch: int, seconds: float) -> float:
    """Return requests a second with so many writers, once every one has begun its run."""
    done, ready, began = 0, 0, 0.0
    all_ready = trio.Event()

    async def write() -> None:
        nonlocal done, ready, began
        run_id = f"run_{next(_KEYS)}"
        async with connected(served) as post:
            await post(_START % (run_id, next(_KEYS)))
            ready += 1
            if ready == writers:
                began = trio.current_time()
                all_ready.set()
            await all_ready.wait()
            while trio.current_time() < began + seconds:
                events = ",".join([_EVENT % (run_id, next(_KEYS)) for _ in range(batch)])
                await post(f'{{"events":[{events}]}}')
                done += 1

    async with trio.open_nursery() as nursery:
        for _ in range(writers):
            nursery.start_soon(write)
    return done / (trio.current_time() - began)


@asynccontextmanager
async def connected(served: Served) -> AsyncGenerator[Callable[[str], Awaitable[None]]]:
    """Yield what posts a body and waits for its 201, on one connection."""
    parts = urlsplit(served.url)
    assert parts.hostname is not None
    assert parts.port is not None
    path = f"{parts.path}/v1/threads/{served.threads[0]}/events"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer"
        f" {served.bot_token}\r\nContent-Type: application/json\r\nContent-Length: "
    )
    async with await trio.open_tcp_stream(parts.hostname, parts.port) as stream:
        yield partial(_post, stream, head)


async def _post(stream: trio.SocketStream, head: str, body: str) -> None:
    await stream.send_all(f"{head}{len(body)}\r\n\r\n{body}".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += await _more(stream)
    top, _, rest = answer.partition(b"\r\n\r\n")
    if not top.startswith(b"HTTP/1.1 201"):
        raise ConnectionError(answer.decode(errors="replace"))
    length = int(top.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    left = length - len(rest)
    while left > 0:
        left -= len(await _more(stream))


async def _more(stream: trio.SocketStream) -> bytes:
    data = await stream.receive_some()
    if not data:
        raise ConnectionError("the server has closed a connection")
    return bytes(data)
