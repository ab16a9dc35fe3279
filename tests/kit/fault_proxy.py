"""A network that misbehaves on order: a loopback proxy for HTTP/1.1 and WebSocket, with switches.

It passes bytes as they are; requests are read whole first, so that a test can name one by its
first line. No TLS and no `Expect`. Every switch may be set at any time and acts at once.
"""

import re
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http.client import responses
from math import inf
from typing import Literal

import h11
import trio

Way = Literal["up", "down"]
"""Up is from client to server."""


class Cut(Exception):
    """A switch says that this connection ends here."""


FRAMING_REPLY = (b"host", b"connection", b"upgrade")
"""The fields of a request that decide where its response ends."""
GONE = (Cut, OSError, trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError)


@dataclass
class Rule:
    """What to do with the next `times` requests whose first line matches."""

    pattern: re.Pattern[str]
    times: int
    answer: bytes | None = None
    """Say this instead of asking the server; `None`: ask it, and swallow what it answers."""


@dataclass
class FaultProxy:
    """One proxied server. Owns its port and its connections until the block ends."""

    upstream: tuple[str, int]
    nursery: trio.Nursery
    host: str = "127.0.0.1"
    port: int = 0
    delay_s: float = 0.0
    """Before each piece, either way."""
    requests: list[str] = field(default_factory=list)
    """The first line of every request seen, in order."""
    connections: int = 0
    """Accepted so far."""
    cut_after_bytes: float = inf
    """How many more bytes may come down from the server; set by `cut_after`."""

    def __post_init__(self) -> None:
        # Bound but not listening, it keeps the port ours while nobody may connect
        self._holder = self._bound()
        self.port = self._holder.getsockname()[1]
        self._listener: trio.SocketListener | None = None
        self._open = {"up": trio.Event(), "down": trio.Event()}
        self._rules: list[Rule] = []
        self._live: set[trio.CancelScope] = set()
        self.resume()
        self.accept()

    @property
    def url(self) -> str:
        """Where clients go; never ends in a slash."""
        return f"http://{self.host}:{self.port}"

    @property
    def live(self) -> int:
        """How many connections there are now."""
        return len(self._live)

    def drop(self) -> None:
        """Reset every connection now. New ones are welcome."""
        for scope in self._live:
            scope.cancel()

    def refuse(self) -> None:
        """Let nobody connect, as if the server were down. What is connected stays."""
        if self._listener is not None:
            self._listener.socket.close()
            self._listener = None

    def accept(self) -> None:
        """Take connections (again)."""
        if self._listener is None:
            bound = self._bound()
            bound.listen()
            self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound))
            self.nursery.start_soon(self._accept, self._listener)

    def pause(self, *ways: Way) -> None:
        """Stop passing bytes these ways (none named: both), and close nothing: half open."""
        for way in ways or ("up", "down"):
            self._open[way] = trio.Event()

    def resume(self) -> None:
        """Pass bytes again, those held back first."""
        for event in self._open.values():
            event.set()

    def cut_after(self, count_bytes: int) -> None:
        """Cut the connection that brings the `count_bytes`th byte from the server, after it."""
        self.cut_after_bytes = count_bytes

    def swallow(self, first_line: str, times: int = 1) -> None:
        """Lose the answer to the next matching request: done by the server, unknown to the client.

        The whole answer is awaited before the connection is reset, so the server has committed.
        """
        self._rules.append(Rule(re.compile(first_line), times))

    def answer(
        self,
        first_line: str,
        status: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        times: int = 1,
    ) -> None:
        """Answer the next matching requests in the server's place, which never sees them."""
        fields = {"content-length": str(len(body)), **(headers or {})}
        lines = [f"HTTP/1.1 {status} {responses.get(status, '')}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self._rules.append(Rule(re.compile(first_line), times, head + body))

    def clear(self) -> None:
        """Forget every rule, delay, pause and pending cut."""
        self._rules.clear()
        self.delay_s, self.cut_after_bytes = 0.0, inf
        self.resume()

    def close(self) -> None:
        """Give the port back."""
        self.refuse()
        self._holder.close()

    def _bound(self) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((self.host, self.port))
        return bound

    async def _accept(self, listener: trio.SocketListener) -> None:
        with suppress(trio.ClosedResourceError):
            while True:
                client = await listener.accept()
                self.connections += 1
                self.nursery.start_soon(self._connection, client)

    async def _connection(self, client: trio.SocketStream) -> None:
        orderly = False
        with trio.CancelScope() as scope:
            self._live.add(scope)
            try:
                async with await trio.open_tcp_stream(*self.upstream) as server:
                    await Passage(self, client, server).run()
                orderly = True
            except* GONE:
                pass  # either end may leave at any time
            finally:
                self._live.discard(scope)
                if not orderly:
                    reset = struct.pack("ii", 1, 0)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                client.socket.close()

    def rule_for(self, first_line: str) -> Rule | None:
        """Note the request, and return the first rule that is left for it."""
        self.requests.append(first_line)
        for rule in self._rules:
            if rule.times > 0 and rule.pattern.search(first_line):
                rule.times -= 1
                return rule
        return None

    async def passed(self, way: Way, data: bytes) -> bytes:
        """Return what of `data` may go on, when it may."""
        if self.delay_s:
            await trio.sleep(self.delay_s)
        while not (event := self._open[way]).is_set():
            await event.wait()
        if way == "down":
            data = data[: int(min(self.cut_after_bytes, len(data)))]
            self.cut_after_bytes -= len(data)
        return data


class Passage:
    """One client's connection through the proxy."""

    def __init__(
        self, proxy: FaultProxy, client: trio.SocketStream, server: trio.SocketStream
    ) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._early = b""

    async def run(self) -> None:
        """Pass requests and responses until an end leaves or a switch says so."""
        while (request := await self._next_request()) is not None:
            raw, event = request
            rule = self._proxy.rule_for(raw.partition(b"\r\n")[0].decode("latin-1"))
            if rule is not None and rule.answer is not None:
                await self._send("down", rule.answer)
                continue
            await self._send("up", raw)
            follow = await self._response(event, silent=rule is not None)
            if rule is not None:
                raise Cut
            if not follow:
                return

    async def _next_request(self) -> tuple[bytes, h11.Request] | None:
        """Return the next request, as it came and as h11 read it; `None` when there is none."""
        parser, raw = h11.Connection(h11.SERVER), self._early
        if raw:
            parser.receive_data(raw)
        request: h11.Request | None = None
        while not isinstance(event := parser.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                request = event
            elif event is h11.NEED_DATA:
                data = bytes(await self._client.receive_some())
                if not data and not raw:
                    return None
                parser.receive_data(data)
                raw += data
        assert request is not None
        self._early = parser.trailing_data[0]
        return raw[: len(raw) - len(self._early)], request

    async def _response(self, request: h11.Request, *, silent: bool) -> bool:
        """Pass the response on as it comes; return whether another request may follow."""
        parser = h11.Connection(h11.CLIENT)
        kept = [(name, value) for name, value in request.headers if name in FRAMING_REPLY]
        parser.send(h11.Request(method=request.method, target=request.target, headers=kept))
        parser.send(h11.EndOfMessage())
        follow = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_client, nursery.cancel_scope)
            while not isinstance(event := parser.next_event(), h11.EndOfMessage):
                if event is h11.PAUSED:  # 101: from here on it is anybody's protocol
                    break
                if event is h11.NEED_DATA:
                    data = bytes(await self._server.receive_some())
                    parser.receive_data(data)
                    if not silent:
                        await self._send("down", data)
            else:
                follow = parser.our_state is h11.DONE and parser.their_state is h11.DONE
            nursery.cancel_scope.cancel()
        if parser.their_state is h11.SWITCHED_PROTOCOL and not silent:
            await self._pass_all()
        return follow

    async def _watch_client(self, scope: trio.CancelScope) -> None:
        while data := bytes(await self._client.receive_some()):
            self._early += data
        scope.cancel()

    async def _pass_all(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pump, "up", nursery.cancel_scope)
            await self._pump("down", nursery.cancel_scope)

    async def _pump(self, way: Way, scope: trio.CancelScope) -> None:
        if way == "up" and self._early:
            await self._send("up", self._early)
        source = self._client if way == "up" else self._server
        while data := bytes(await source.receive_some()):
            await self._send(way, data)
        scope.cancel()

    async def _send(self, way: Way, data: bytes) -> None:
        if allowed := await self._proxy.passed(way, data):
            await (self._server if way == "up" else self._client).send_all(allowed)
        if len(allowed) < len(data) or self._proxy.cut_after_bytes == 0:
            self._proxy.cut_after_bytes = inf
            raise Cut


@asynccontextmanager
async def fault_proxy(upstream_host: str, upstream_port: int) -> AsyncIterator[FaultProxy]:
    """Proxy a server, on a free port of loopback, until the block ends."""
    async with trio.open_nursery() as nursery:
        proxy = FaultProxy((upstream_host, upstream_port), nursery)
        try:
            yield proxy
        finally:
            proxy.close()
            nursery.cancel_scope.cancel()
