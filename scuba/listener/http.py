"""One connection, from its first byte to its last: requests one after the other, or a WebSocket."""

import logging
from functools import partial

import h11
import trio

from scuba.errors import Problem
from scuba.listener.asgi import App, contained
from scuba.listener.config import ListenerConfig
from scuba.listener.exchange import Exchange
from scuba.listener.heads import (
    Ends,
    check_head,
    http_scope,
    is_upgrade,
    refusal,
    websocket_key,
    websocket_scope,
)
from scuba.listener.problems import new_request_id, render_problem
from scuba.listener.websocket import WebSocket
from scuba.listener.writing import BoundedStream, ConnectionGone

logger = logging.getLogger(__name__)


class HttpConnection:
    """Owns one transport and closes it when `run` ends."""

    def __init__(
        self, app: App, transport: trio.abc.Stream, config: ListenerConfig, ends: Ends
    ) -> None:
        self._app, self._config, self._ends = app, config, ends
        self._stream = BoundedStream(transport, config.write_s)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=config.header_bytes)
        self._idle = trio.CancelScope()
        self._exchange: Exchange | None = None
        self._first = True
        self._stopping = False

    async def run(self) -> None:
        """Serve until either side ends it. Raises nothing that a peer or an app can cause."""
        try:
            while not self._stopping and await self._serve_next():
                pass
            if self._unread():
                await self._stream.linger()
        except Problem as problem:
            await self._refuse(problem)
        except ConnectionGone as gone:
            logger.debug("%s: %s", self._ends.client, gone)
        finally:
            await self._stream.aclose()

    def stop(self) -> None:
        """Close now if idle, else after the response in hand."""
        self._stopping = True
        self._idle.cancel()
        if self._exchange is not None:
            self._exchange.closing = True

    async def _serve_next(self) -> bool:
        """Serve one request; return whether another may follow."""
        request = await self._next_request()
        if request is None:
            return False
        exchange = self._exchange = Exchange(self._http, self._stream, request, self._config)
        exchange.closing = self._stopping
        try:
            check_head(request, self._config)
            serve = self._serve_websocket if is_upgrade(request) else self._serve_http
            await serve(request, exchange)
        except Problem as problem:
            await exchange.refuse(problem)
        self._exchange = None
        if exchange.refused or self._stream.gone or not exchange.reusable():
            return False
        self._http.start_next_cycle()
        return True

    async def _serve_http(self, request: h11.Request, exchange: Exchange) -> None:
        scope = http_scope(request, self._ends)
        call = partial(self._app, scope, exchange.receive, exchange.send)
        fine = await contained(call, exchange.name, exchange.left)
        await exchange.finish(fine=fine)

    async def _serve_websocket(self, request: h11.Request, exchange: Exchange) -> None:
        key = websocket_key(request)
        scope = websocket_scope(request, self._ends)
        if type(self._next_event()) is not h11.EndOfMessage:
            raise Problem(400, "bad_request", "a WebSocket handshake has no body")
        exchange.closing = True
        await WebSocket(exchange, key, self._config).run(self._app, scope)

    async def _next_request(self) -> h11.Request | None:
        """Return the next head; `None` when the client left, had nothing to say, or must go."""
        head_by = trio.current_time() + self._config.header_s
        if self._first:
            self._first = False
            began = await self._wait_for_bytes(head_by)
        else:
            began = await self._wait_for_bytes(trio.current_time() + self._config.idle_s)
            head_by = trio.current_time() + self._config.header_s
        if not began:
            return None
        with trio.CancelScope(deadline=head_by):
            while (event := self._next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._stream.read())
            return event if isinstance(event, h11.Request) else None
        raise Problem(408, "request_timeout", f"no head came in {self._config.header_s:g} s")

    async def _wait_for_bytes(self, until: float) -> bool:
        """Wait for the beginning of a request; return whether there is one."""
        data = self._http.trailing_data[0]
        if not data:
            with trio.CancelScope(deadline=until) as self._idle:
                data = await self._stream.read()
            if data:
                self._http.receive_data(data)
        return bool(data)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise refusal(error, self._config) from error

    def _unread(self) -> bool:
        """Return whether the client may still be sending, or has sent what nobody read."""
        busy = self._http.their_state in (h11.SEND_BODY, h11.ERROR)
        return not self._stream.ended and (busy or bool(self._http.trailing_data[0]))

    async def _refuse(self, problem: Problem) -> None:
        """Answer a request that no app will see."""
        answer = render_problem(problem, new_request_id())
        try:
            await self._stream.write(lambda: answer)
        except ConnectionGone as gone:
            logger.debug("%s: %s", self._ends.client, gone)
        else:
            await self._stream.linger()
