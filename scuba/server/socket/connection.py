"""One socket from `server.ready` to its close: a reader, a writer, and a guard for its token."""

from collections.abc import Awaitable, Callable, MutableMapping
from math import inf
from typing import Any, assert_never

import trio

from scuba import wire
from scuba.errors import Problem
from scuba.listener import Stalled
from scuba.server.socket.following import Following, refusal
from scuba.server.socket.frames import read_frame
from scuba.server.socket.granting import Granting
from scuba.server.socket.greeting import Guest
from scuba.server.socket.marking import Marking
from scuba.server.socket.outlet import Outlet, Send, utc_now
from scuba.server.socket.parts import SocketParts
from scuba.server.socket.subscription import Subscription

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

ENDING_S = 0.5
"""Longest time that frames on their way hold up the close."""
BAD_FRAMES = 3
"""So many in a row, and the socket is closed (8.5)."""
MISSED_BEATS = 2.5
SOONEST_S = 0.05
"""When to look again at a token that has as good as ended."""


class Connection:
    """Owns its subscriptions and tasks; all end with `run`. It is a `Reader` to the hub."""

    def __init__(
        self,
        parts: SocketParts,
        receive: Receive,
        send: Send,
        guest: Guest,
        *,
        pings: bool,
        frames: bool = False,
    ) -> None:
        config, caller = parts.config, guest.caller
        self._parts, self._store, self._guest = parts, parts.store, guest
        self._receive = receive
        self.principal_id = caller.principal.principal_id
        self.token_id = caller.token_id
        self.instance_id = guest.instance_id
        self._patience_s = MISSED_BEATS * config.heartbeat_s if pings else inf
        self._outlet = Outlet(send, heartbeat_s=config.heartbeat_s, pings=pings, frames=frames)
        self._following = Following(parts, self._outlet, self, caller)
        self._marking = Marking(parts, self._outlet, caller)
        self._granting = Granting(
            parts.store, self._outlet, self.principal_id, config.limits.frame_bytes
        )
        self._life = trio.CancelScope()
        self._token_news = trio.Event()
        self._ending: tuple[int, str] | None = None
        self._gone = False

    # --- what the hub calls --------------------------------------------------------------------

    def moved(self, subscription: Subscription) -> None:
        """Serve that subscription."""
        self._following.moved(subscription)

    def grants_moved(self) -> None:
        """Look at the grants."""
        self._granting.moved()

    def token_moved(self) -> None:
        """Look at the token."""
        self._token_news.set()

    def end(self, code: int, reason: str) -> None:
        """Send no more events; close after the answers in hand, soon even if nobody reads."""
        if self._ending is None:
            self._ending = (code, reason)
            self._following.close()
            self._life.deadline = min(self._life.deadline, trio.current_time() + ENDING_S)
            self._outlet.wake()

    def say_goodbye(self, reconnect_after_ms: int) -> None:
        """Tell the client to come back later, and close (8.9)."""
        self._outlet.put(
            wire.ServerClosing(reason="restart", reconnect_after_ms=reconnect_after_ms)
        )
        self.end(wire.Close.GOING_AWAY, "the server is stopping")

    # --- its life ------------------------------------------------------------------------------

    async def run(self) -> tuple[int, str] | None:
        """Serve until one side ends it. Return the close to send; None when the peer has gone."""
        self._parts.hub.join(self)
        try:
            self._outlet.put(self._ready())
            with self._life:
                self._heard()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, nursery.cancel_scope, name="socket reader")
                    nursery.start_soon(self._guard, name="socket token guard")
                    nursery.start_soon(self._outlet.pulse, name="socket pulse")
                    await self._write()
                    nursery.cancel_scope.cancel()
        finally:
            self._following.close()
            self._parts.hub.leave(self)
        if self._gone:
            return None
        return self._ending or (wire.Close.HEARTBEAT, "nothing was heard for too long")

    def _ready(self) -> wire.ServerReady:
        return wire.ServerReady(
            connection_id=self._guest.connection_id,
            principal=self._guest.caller.principal,
            log_epoch=self._store.log_epoch,
            heartbeat_seconds=self._parts.config.heartbeat_s,
            limits=self._parts.config.limits,
            other_instances=self._parts.hub.other_instances(self),
            time=utc_now(),
        )

    # --- reading -------------------------------------------------------------------------------

    async def _read(self, all_of_it: trio.CancelScope) -> None:
        bad = 0
        while self._ending is None:
            message = await self._receive()
            self._heard()
            if message["type"] == "websocket.disconnect":
                self._gone = True
                all_of_it.cancel()
            elif message["type"] == "websocket.receive":
                bad = 0 if await self._take(message.get("text")) else bad + 1
                if bad == BAD_FRAMES:
                    self.end(wire.Close.PROTOCOL, f"{BAD_FRAMES} invalid frames in a row")
                await self._outlet.room()

    def _heard(self) -> None:
        if self._ending is None:
            self._life.deadline = trio.current_time() + self._patience_s

    async def _take(self, text: str | None) -> bool:
        """Act on one frame; return whether it was one."""
        if text is None:
            self.end(wire.Close.PROTOCOL, "binary frames are not spoken here")
            return False
        try:
            frame = read_frame(text)
            await self._act(frame)
        except Problem as error:
            if error.status >= 500:
                self.end(wire.Close.FAULT, error.detail)
            else:
                self._outlet.put(refusal(error, thread_id=None, ref=None))
            return error.code != "invalid_frame"
        return True

    async def _act(self, frame: wire.ClientFrame) -> None:
        match frame:
            case wire.ClientSubscribe():
                await self._following.subscribe(frame)
            case wire.ClientUnsubscribe():
                self._following.unsubscribe(frame)
            case wire.ClientSubscribeGrants():
                self._granting.ask(frame)
            case wire.ClientCursor():
                await self._marking.take(frame)
            case wire.ClientPing():
                self._outlet.put(wire.ServerPong(ref=frame.ref))
            case wire.ClientAuth():
                raise Problem(400, "invalid_frame", "client.auth was sent already")
            case _:
                assert_never(frame)

    # --- writing -------------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                await self._outlet.flush()
                if self._ending is not None:
                    return
                await self._write_some()
                await self._outlet.beat()
        except Stalled:  # the listener has closed it with 4408, or cut it (8.8)
            self._parts.counts.closes[wire.Close.LAGGARD] += 1
            self._gone = True
        except OSError:
            self._gone = True
        except Problem as error:
            self.end(wire.Close.FAULT, error.detail)

    async def _write_some(self) -> None:
        if self._granting.ready:
            await self._granting.serve()
        elif self._following.ready:
            await self._following.serve_next()
        else:
            await self._outlet.rest()

    # --- the token -----------------------------------------------------------------------------

    async def _guard(self) -> None:
        """End the socket when its token ends (2.5). Looks once more after joining the hub."""
        try:
            while True:
                self._token_news = trio.Event()
                left_s = await self._store.identities.left_s(self._guest.caller)
                with trio.move_on_after(max(left_s, SOONEST_S)):
                    await self._token_news.wait()
        except Problem as error:
            self.end(*_ENDS.get(error.status, (wire.Close.FAULT, error.detail)))


_ENDS = {
    401: (wire.Close.UNAUTHENTICATED, "the token has ended"),
    403: (wire.Close.REFUSED, "this principal is disabled"),
}
