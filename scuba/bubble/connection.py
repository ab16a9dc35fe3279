"""One connection after another, with growing waits, until no further try makes sense (8.9)."""

import logging
from collections.abc import Awaitable, Callable

import trio
from trio_websocket import ConnectionRejected
from wsproto.utilities import ProtocolError

from actors.ports import Unavailable
from scuba import wire
from scuba.bubble.answers import retry_after_s
from scuba.bubble.backoff import Backoff
from scuba.bubble.endings import Ending, Lost, least_wait_s, permanent
from scuba.bubble.http import BubbleClient
from scuba.bubble.outage import Outage
from scuba.bubble.socket import (
    CONNECT_S,
    MESSAGE_BYTES,
    OPEN_S,
    Dial,
    Socket,
    WatchedStream,
    dial,
    open_socket,
)
from scuba.causes import cause_of
from scuba.errors import IdentityRefused, ScubaError

logger = logging.getLogger(__name__)

Use = Callable[[Socket, wire.ServerReady], Awaitable[None]]
"""What is done with an open connection until it raises Lost, or ScubaError to end everything."""


class Connector:
    """Opens a connection, has it used, and opens the next when it is lost. Owns at most one."""

    def __init__(
        self,
        client: BubbleClient,
        use: Use,
        *,
        instance_id: str,
        max_message_bytes: int = MESSAGE_BYTES,
        dial: Dial = dial,
        outage: Outage | None = None,
        may_try: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        """`outage`: shared by connections that fail together; `may_try` returns when one may."""
        self._may_try = may_try
        self._client, self._use, self._dial = client, use, dial
        self._instance_id, self._max_message_bytes = instance_id, max_message_bytes
        self._token = client.token
        self._backoff = Backoff()
        self._outage = outage or connection_outage()
        self._last: tuple[int | None, int | None] = None, None
        self._in_a_row = 0

    async def run(self, lost: Callable[[Ending], None]) -> ScubaError:
        """Return the error that makes every further try senseless; call `lost` before each."""
        while True:
            await self._may_try()
            ending = await self._connection()
            if isinstance(ending, ScubaError):
                return ending
            error = await self._permanent(ending)
            if error is not None:
                return error
            self._outage.failed(ending.detail)
            lost(ending)
            await trio.sleep(self._wait_s(ending))

    async def _permanent(self, ending: Ending) -> ScubaError | None:
        """Return why no further try makes sense; a refused token is read anew before that."""
        try:
            if ending.unauthenticated and await self._client.renew(self._token):
                return None
        except IdentityRefused as error:
            return error
        except Unavailable:
            return None
        return permanent(ending, self._count(ending))

    def _count(self, ending: Ending) -> int:
        kind = ending.code, ending.status
        is_same = kind == self._last and self._backoff.failures > 0  # none: it was healthy since
        self._in_a_row = self._in_a_row + 1 if is_same else 1
        self._last = kind
        return self._in_a_row

    def _wait_s(self, ending: Ending) -> float:
        is_first = self._backoff.failures == 0
        wait_s = self._backoff.failed(least_wait_s(ending))
        # The server's hint is already different for each socket, so it is taken as it is.
        is_planned = ending.code == wire.Close.GOING_AWAY and is_first
        return wait_s if ending.wait_s is None or not is_planned else ending.wait_s

    async def _connection(self) -> Ending | ScubaError:
        ending: Ending | ScubaError = Ending(detail="nothing was opened")
        try:
            async with trio.open_nursery() as nursery:
                ending = await self._converse(nursery)
                nursery.cancel_scope.cancel()
        except* ConnectionRejected as rejected:
            ending = _rejection(rejected)
        except* ProtocolError as broken:
            ending = Ending(detail=f"the WebSocket protocol was broken: {broken.exceptions[0]}")
        return ending

    async def _converse(self, nursery: trio.Nursery) -> Ending | ScubaError:
        stream = await self._connected()
        if isinstance(stream, Ending):
            return stream
        try:
            return await self._talk(nursery, stream)
        except Lost as lost:
            return lost.ending
        except ScubaError as error:
            return error
        finally:
            await trio.aclose_forcefully(stream)

    async def _connected(self) -> WatchedStream | Ending:
        try:
            with trio.fail_after(CONNECT_S):
                client = self._client
                return WatchedStream(await self._dial(client.address, client.socket_context))
        except trio.TooSlowError:
            return Ending(detail=f"no connection within {CONNECT_S:g} s")
        except (OSError, trio.BrokenResourceError) as error:
            return Ending(detail=f"no connection: {cause_of(error)}")

    async def _talk(self, nursery: trio.Nursery, stream: WatchedStream) -> Ending:
        opened = await self._opened(nursery, stream)
        if opened is None:
            return Ending(detail=f"the server was not ready within {OPEN_S:g} s")
        self._outage.recovered()
        began_at = trio.current_time()
        try:
            await self._use(*opened)
        finally:
            self._backoff.lived(trio.current_time() - began_at)
        return Ending(detail="nothing more to do")

    async def _opened(
        self, nursery: trio.Nursery, stream: WatchedStream
    ) -> tuple[Socket, wire.ServerReady] | None:
        with trio.move_on_after(OPEN_S):
            address = self._client.address
            socket = await open_socket(nursery, stream, address, self._max_message_bytes)
            self._token = self._client.token
            return socket, await socket.authenticate(self._token, self._instance_id)
        return None


def connection_outage() -> Outage:
    """Return what says that the server cannot be reached, once for all that find it so."""
    return Outage(logger, "the connection to the Bubble server")


def _rejection(group: BaseExceptionGroup[ConnectionRejected]) -> Ending:
    rejected = group.exceptions[0]
    while isinstance(rejected, BaseExceptionGroup):
        rejected = rejected.exceptions[0]
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in rejected.headers
    }
    return Ending(
        detail=f"the upgrade was answered with {rejected.status_code}",
        status=rejected.status_code,
        wait_s=retry_after_s(headers),
    )
