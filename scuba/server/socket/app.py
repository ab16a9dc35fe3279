"""The ASGI side of the socket: accept, greet, serve, close with the right code (8.9)."""

import random
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

import trio

from scuba import wire
from scuba.server.login import Scope, address
from scuba.server.socket.connection import Connection, Receive
from scuba.server.socket.greeting import Guest, Refused, greet
from scuba.server.socket.outlet import Send
from scuba.server.socket.parts import SocketParts

CLOSE_S = 1.0
"""Longest time to say goodbye to a peer that may not be listening."""


class SocketApp:
    """Serves every socket, and can end them all."""

    def __init__(self, parts: SocketParts) -> None:
        self._parts = parts
        self._connections: set[Connection] = set()
        self._guests: Counter[str] = Counter()
        self._stopping = False

    def stop(self) -> None:
        """Tell every client to come back, each at another moment, and close (8.9, 14.5)."""
        self._stopping = True
        for connection in self._connections:
            connection.say_goodbye(random.randrange(500, 3_000))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one socket from its upgrade to its close."""
        await receive()  # websocket.connect
        offered = scope.get("subprotocols") or ()
        subprotocol = wire.SUBPROTOCOL if wire.SUBPROTOCOL in offered else None
        hub = self._parts.hub
        hub.connected += 1
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
            close = await self._serve(scope, receive, send)
            if close is not None:
                self._parts.counts.closes[close[0]] += 1
                with trio.move_on_after(CLOSE_S):
                    code, reason = close
                    await send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return  # the peer has gone, which is an end as good as any
        finally:
            hub.connected -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> tuple[int, str] | None:
        config = self._parts.config
        try:
            self._check_room()
            with self._waiting(address(scope, trusted_proxy=config.trusted_proxy)):
                guest = await greet(scope, receive, self._parts.logins, config)
            self._check_room_for(guest)
        except Refused as refused:
            return None if refused.gone else (refused.code, refused.reason)
        extensions: dict[str, object] = scope.get("extensions") or {}
        connection = Connection(
            self._parts,
            receive,
            send,
            guest,
            pings="scuba.websocket.ping" in extensions,
            frames="scuba.websocket.frame" in extensions,
        )
        self._connections.add(connection)
        try:
            return await connection.run()
        finally:
            self._connections.discard(connection)

    @contextmanager
    def _waiting(self, origin: str) -> Generator[None]:
        """Count a socket that has not said who it is. Raises Refused for one too many (12)."""
        if self._guests[origin] >= self._parts.config.guests_per_address:
            raise Refused(wire.Close.TOO_MANY, "too many sockets from here do not say who they are")
        self._guests[origin] += 1
        try:
            yield
        finally:
            self._guests[origin] -= 1
            if not self._guests[origin]:
                del self._guests[origin]

    def _check_room(self) -> None:
        if self._parts.hub.connected > self._parts.config.sockets:
            raise Refused(wire.Close.TOO_MANY, "the server has all the sockets it may have")

    def _check_room_for(self, guest: Guest) -> None:
        principal_id = guest.caller.principal.principal_id
        if self._parts.hub.sockets_of(principal_id) >= self._parts.config.sockets_per_principal:
            raise Refused(wire.Close.TOO_MANY, "this principal has all the sockets it may have")
        if self._stopping:
            raise Refused(wire.Close.GOING_AWAY, "the server is stopping")
