"""Our own listener in a test: over memory streams, or for real on a free port of loopback."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import h11
import trio
from trio.testing import memory_stream_pair
from trio_websocket import WebSocketConnection, wrap_client_stream

from scuba.listener import App, ListenerConfig, open_listener, serve_asgi
from scuba.listener.heads import Ends
from scuba.listener.http import HttpConnection

MemoryStream = trio.StapledStream[Any, Any]
PLAIN = ListenerConfig()


def connect(nursery: trio.Nursery, app: App, config: ListenerConfig = PLAIN) -> MemoryStream:
    """Return the client's end of a connection that is being served."""
    client, server = memory_stream_pair()
    nursery.start_soon(HttpConnection(app, server, config, Ends()).run)
    return client


@dataclass
class Answer:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A small HTTP client that sends what it is told, byte for byte."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._http = h11.Connection(h11.CLIENT)

    async def ask(self, request: bytes) -> Answer:
        """Send the bytes of one whole request and return the response."""
        await self.stream.send_all(request)
        return await self.answer(b"HEAD" if request.startswith(b"HEAD ") else b"GET")

    async def answer(self, method: bytes = b"GET") -> Answer:
        """Return the next response. Raises `h11.RemoteProtocolError` if it is cut short."""
        # h11 must believe that it asked
        self._http.send(h11.Request(method=method, target=b"/", headers=[(b"host", b"x")]))
        self._http.send(h11.EndOfMessage())
        answer = Answer(0, {}, b"")
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    self._http.receive_data(bytes(await self.stream.receive_some(65_536)))
                case h11.Response(status_code=status, headers=headers):
                    answer.status = status
                    answer.headers = {k.decode(): v.decode() for k, v in headers}
                case h11.Data(data=data):
                    answer.body += data
                case h11.EndOfMessage():
                    break
                case other:
                    raise AssertionError(other)
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return answer


@dataclass
class Served:
    """A listener at work. `stop` ends it in order, `scope` at once, `done` says that it has."""

    host: str
    port: int
    secure: bool
    stop: trio.Event
    scope: trio.CancelScope
    done: trio.Event

    @property
    def url(self) -> str:
        """Where HTTP clients go."""
        return f"http{'s' * self.secure}://{self.host}:{self.port}"

    @property
    def ws_url(self) -> str:
        """Where WebSocket clients go."""
        return f"ws{'s' * self.secure}://{self.host}:{self.port}"


@asynccontextmanager
async def serving(app: App, config: ListenerConfig = PLAIN) -> AsyncIterator[Served]:
    """Serve `app` on loopback for real, until the block ends."""
    scope, stop, done = trio.CancelScope(), trio.Event(), trio.Event()

    async def run(*, task_status: trio.TaskStatus[list[tuple[str, int]]]) -> None:
        with scope:
            listeners = await open_listener("127.0.0.1", 0)
            await serve_asgi(app, listeners, config, stop=stop, task_status=task_status)
        done.set()

    async with trio.open_nursery() as nursery:
        [(host, port)] = await nursery.start(partial(run))
        yield Served(host, port, config.ssl_context is not None, stop, scope, done)
        scope.cancel()


@asynccontextmanager
async def dialled(host: str, port: int, path: str = "/ws") -> AsyncIterator[WebSocketConnection]:
    """Open a WebSocket whose stream is closed also after an abnormal end.

    trio-websocket's own context manager leaves it open then (0.12), and a test sees a warning.
    """
    async with await trio.open_tcp_stream(host, port) as stream, trio.open_nursery() as nursery:
        yield await wrap_client_stream(nursery, stream, host, path)
        nursery.cancel_scope.cancel()


def tls_pair() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's context for 127.0.0.1, and one of a client that trusts it."""
    import trustme  # only the few tests under TLS need it

    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client
