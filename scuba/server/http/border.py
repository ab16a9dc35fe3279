"""What every request passes on its way in and every answer on its way out (13, 14.2, 14.5)."""

import secrets

import trio
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scuba.errors import Problem
from scuba.server.config import ServerConfig, is_loopback
from scuba.server.counts import Counts
from scuba.server.http.replies import problem
from scuba.server.login import header

RETRY_S = 2
"""When to try again a server that is stopping."""


class Border:
    """Turns away foreign web pages and, once stopping, all new work; counts what is in hand."""

    def __init__(self, inner: ASGIApp, config: ServerConfig, counts: Counts) -> None:
        self._inner, self._config, self._counts = inner, config, counts
        self._hosts = frozenset(name.lower() for name in config.allowed_hosts)
        self._health = config.prefix + "/healthz"
        self._in_hand = 0
        self._idle = trio.Event()
        self.stopping = False

    async def drained(self) -> None:
        """Return when no HTTP request is in hand any more; call it after `stopping` is set."""
        while self._in_hand:
            self._idle = trio.Event()
            await self._idle.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or socket."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"req_{secrets.token_hex(8)}"
        scope.setdefault("state", {})["request_id"] = request_id
        origin = header(scope, b"origin")
        began, status = trio.current_time(), 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                headers["Cache-Control"] = "no-store"
                headers["X-Content-Type-Options"] = "nosniff"
                if origin in self._config.allowed_origins:
                    _allow(headers, str(origin))
            await send(message)

        self._in_hand += 1
        try:
            answer = self._answer(scope, request_id) or self._inner
            await answer(scope, receive, send_marked)
        finally:
            self._in_hand -= 1
            took_s = trio.current_time() - began
            self._counts.request(scope["state"].get("route"), scope["method"], status, took_s)
            if not self._in_hand:
                self._idle.set()

    def _answer(self, scope: Scope, request_id: str) -> Response | None:
        """Return what settles a request before any handler sees it, or None."""
        refused = self._refusal(scope)
        if refused is not None:
            return problem(refused, request_id)
        preflight = header(scope, b"access-control-request-method") is not None
        if scope["method"] == "OPTIONS" and preflight and header(scope, b"origin") is not None:
            return Response(status_code=204)
        return None

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope)
        if refused is None:
            await self._inner(scope, receive, send)
        elif "websocket.http.response" in scope.get("extensions", {}):
            await receive()
            answer = problem(refused, f"req_{secrets.token_hex(8)}")
            await answer(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1001 if self.stopping else 4403})

    def _refusal(self, scope: Scope) -> Problem | None:
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._config.allowed_origins:
            return Problem(403, "forbidden", "this Origin is not in allowedOrigins")
        if is_loopback(self._config.bind) and not self._is_ours(header(scope, b"host")):
            return Problem(403, "forbidden", "this Host is not in allowedHosts")
        if self.stopping and scope["path"] != self._health:
            return Problem(503, "unavailable", "the server is stopping", retry_after=RETRY_S)
        return None

    def _is_ours(self, host: str | None) -> bool:
        whole = (host or "").lower()
        name = whole.rpartition("]")[0] + "]" if whole.startswith("[") else whole.partition(":")[0]
        return is_loopback(name) or not self._hosts.isdisjoint((whole, name))


def _allow(headers: MutableHeaders, origin: str) -> None:
    """Let a listed page read the answer and send what clients send (14.2)."""
    headers["Access-Control-Allow-Origin"] = origin
    headers["Access-Control-Allow-Methods"] = "GET, POST, PATCH, PUT, DELETE"
    headers["Access-Control-Allow-Headers"] = (
        "Authorization, Content-Type, Content-Digest, Idempotency-Key, If-Match, If-None-Match,"
        " If-Range, Range"
    )
    headers["Access-Control-Expose-Headers"] = (
        "X-Request-Id, Retry-After, ETag, Content-Range, Content-Disposition, Repr-Digest"
    )
    headers["Vary"] = "Origin"
