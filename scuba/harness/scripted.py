"""A model without an account: a Messages endpoint on loopback that follows scripts.

The real Claude Code CLI talks to it in place of the Anthropic API. What it answers is decided in
`script.py`; here it becomes the API's stream. It keeps nothing between requests.
"""

from collections.abc import Iterator
from functools import partial

import msgspec
import trio
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from scuba.harness.messages_api import (
    Fail,
    Frame,
    Reply,
    Sleep,
    decode_request,
    error_body,
    new_id,
    stream,
    whole,
)
from scuba.harness.script import respond
from scuba.listener import ConnectionGone, ListenerConfig, open_listener, serve_asgi

MODEL = "claude-sonnet-5"
"""A model name to give the CLI; the endpoint takes any."""
API_KEY = "scripted"
"""A key to give the CLI; the endpoint asks for none."""
BODY_BYTES = 33_554_432
"""The largest request taken, as by the API itself."""
FLUSH_BYTES = 16_384
"""How much of a stream is written at once, when no `%%sleep` asks for it earlier."""


async def serve_scripted(*, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve on a free port of 127.0.0.1 until cancelled; started with the base URL."""
    listeners = await open_listener("127.0.0.1", 0)
    config = ListenerConfig(body_bytes=BODY_BYTES)
    serve = partial(serve_asgi, scripted_app(), listeners, config)
    async with trio.open_nursery() as nursery:
        [(host, port)] = await nursery.start(serve, name="scripted model")
        task_status.started(f"http://{host}:{port}")


def scripted_app() -> Starlette:
    """Return the endpoint as an ASGI application. Only loopback hosts are answered."""
    return Starlette(
        routes=[
            Route("/v1/messages", _messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        exception_handlers={404: _not_here, 405: _not_here},
    )


async def _messages(http: HttpRequest) -> Response:
    body = await http.body()
    try:
        request = decode_request(body)
    except (ValueError, RecursionError) as error:
        return _error(400, f"the request cannot be read: {error}")
    reply = respond(request)
    while isinstance(reply[0], Sleep):  # before the first word nothing is sent, not even a status
        await _silence(http.receive, reply[0].seconds)
        reply = reply[1:]
    if isinstance(reply[0], Fail):
        return _error(reply[0].status, reply[0].message)
    if request.stream:
        return _Stream(stream(reply, request.model, len(body) // 4))
    return await _at_once(http, reply, request.model, len(body) // 4)


async def _count_tokens(http: HttpRequest) -> Response:
    return JSONResponse({"input_tokens": max(1, len(await http.body()) // 4)})


async def _not_here(http: HttpRequest, _error_: Exception) -> Response:
    return _error(404, f"The scripted model does not answer {http.method} {http.url.path}")


def _error(status: int, message: str | None = None) -> Response:
    return JSONResponse(
        {**error_body(status, message), "request_id": new_id("req")}, status_code=status
    )


async def _at_once(http: HttpRequest, reply: Reply, model: str, tokens_in: int) -> Response:
    for step in reply:
        if isinstance(step, Fail):
            return _error(step.status, step.message)
        if isinstance(step, Sleep):
            await _silence(http.receive, step.seconds)
    return JSONResponse(whole(reply, model, tokens_in))


class _Stream(Response):
    """Server-sent events. Raises ConnectionGone when the client has enough: it was interrupted."""

    def __init__(self, frames: Iterator[Frame | Sleep]) -> None:
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in _pieces(self._frames):
            if isinstance(piece, Sleep):
                await _silence(receive, piece.seconds)
            else:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})


def _pieces(frames: Iterator[Frame | Sleep]) -> Iterator[bytes | Sleep]:
    """Yield what to write at once; everything said is out before a silence begins."""
    waiting = bytearray()
    for frame in frames:
        if isinstance(frame, Sleep) or len(waiting) >= FLUSH_BYTES:
            yield bytes(waiting)
            waiting.clear()
        if isinstance(frame, Sleep):
            yield frame
        else:
            waiting += f"event: {frame['type']}\ndata: ".encode()
            waiting += msgspec.json.encode(frame) + b"\n\n"
    yield bytes(waiting)


async def _silence(receive: Receive, seconds: float) -> None:
    """Say nothing for a while. Raises ConnectionGone when the client hangs up meanwhile."""
    with trio.move_on_after(seconds):
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ConnectionGone("the client hung up")
