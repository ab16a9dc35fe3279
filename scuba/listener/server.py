"""Accept connections, give each a task of its own, and stop them all when asked."""

import errno
import logging
import ssl
from collections.abc import Sequence
from functools import partial

import trio

from scuba.errors import ScubaError
from scuba.listener.asgi import App, contained
from scuba.listener.config import ListenerConfig
from scuba.listener.heads import Ends
from scuba.listener.http import HttpConnection

logger = logging.getLogger(__name__)

DEFAULTS = ListenerConfig()
MAX_PORT = 65_535
BACKOFF_S = 0.1
"""Pause after an accept that failed for want of something, such as file descriptors."""


async def open_listener(host: str, port: int) -> list[trio.SocketListener]:
    """Return bound listeners; port 0 takes a free one. Raises `ScubaError` saying why not."""
    if not 0 <= port <= MAX_PORT:
        raise ScubaError(f"{port} is no port", f"choose one from 0 to {MAX_PORT}")
    try:
        return await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise ScubaError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint(error)
        ) from error


def hint(error: OSError) -> str:
    """Return what a person can do about a port that cannot be had."""
    match error.errno:
        case errno.EADDRINUSE:
            return "another program has this port: stop it, or choose another port (--port)"
        case errno.EACCES | errno.EPERM:
            return "ports below 1024 need privileges: choose a higher one"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address: use one of its own, such as 127.0.0.1"
        case _:
            return "check the address"


async def serve_asgi(
    app: App,
    listeners: Sequence[trio.SocketListener],
    config: ListenerConfig = DEFAULTS,
    *,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[list[tuple[str, int]]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` on `listeners`, and close them in the end, until `stop` is set or cancelled.

    `started` carries the bound addresses. At the stop nothing more is accepted, idle connections
    close at once, running ones have `grace_s`. Cancelled, every connection ends within a second.
    """
    server = Server(app, config)
    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                name = f"accept {address(listener)}"
                accepting.start_soon(server.accept, listener, connections, name=name)
            task_status.started([address(listener) for listener in listeners])
            await (trio.Event() if stop is None else stop).wait()
            accepting.cancel_scope.cancel()
        server.stop()
        connections.cancel_scope.deadline = trio.current_time() + config.grace_s


def address(listener: trio.SocketListener) -> tuple[str, int]:
    """Return host and port that a listener is bound to."""
    host, port, *_ = listener.socket.getsockname()
    return host, port


class Server:
    """The connections of one `serve_asgi`."""

    def __init__(self, app: App, config: ListenerConfig) -> None:
        self._app, self._config = app, config
        self._room = trio.Semaphore(config.max_connections)
        self._live: set[HttpConnection] = set()
        self._stopping = False

    async def accept(
        self, listener: trio.abc.Listener[trio.SocketStream], connections: trio.Nursery
    ) -> None:
        """Start a task for each connection until cancelled; close the listener then."""
        failing = False
        async with listener:
            while True:
                await self._room.acquire()
                try:
                    stream = await listener.accept()
                except OSError as error:
                    self._room.release()
                    if not failing:
                        logger.warning("cannot accept connections, trying on: %s", error)
                    failing = True
                    await trio.sleep(BACKOFF_S)
                else:
                    failing = False
                    connections.start_soon(self._connection, stream, name="connection")

    def stop(self) -> None:
        """Let every connection end after what it has in hand."""
        self._stopping = True
        for connection in self._live:
            connection.stop()

    async def _connection(self, stream: trio.SocketStream) -> None:
        try:
            async with stream:
                await contained(partial(self._serve, stream), "connection")
        finally:
            self._room.release()

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            client, server = stream.socket.getpeername()[:2], stream.socket.getsockname()[:2]
        except OSError:
            return  # gone before we looked
        context = self._config.ssl_context
        ends = Ends(client=client, server=server, secure=context is not None)
        transport = stream if context is None else await self._handshake(stream, context)
        if transport is None:
            return
        connection = HttpConnection(self._app, transport, self._config, ends)
        if self._stopping:
            connection.stop()
        self._live.add(connection)
        try:
            await connection.run()
        finally:
            self._live.discard(connection)

    async def _handshake(
        self, stream: trio.SocketStream, context: ssl.SSLContext
    ) -> trio.abc.Stream | None:
        """Return the stream under TLS; `None`, said once, when the client could not agree."""
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            with trio.fail_after(self._config.header_s):
                await secured.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            logger.info("no TLS with a client: %s", error.__cause__ or error)
            return None
        return secured
