"""What a reader says by socket about how far it has come: taken without an answer (10)."""

from math import ceil

from scuba import wire
from scuba.errors import Problem
from scuba.server.rates import Buckets
from scuba.server.socket.following import refusal
from scuba.server.socket.outlet import Outlet
from scuba.server.socket.parts import SocketParts
from scuba.server.store import Caller


class Marking:
    """Takes the `client.cursor` frames of one socket; a refusal concerns one frame (8.5)."""

    def __init__(self, parts: SocketParts, outlet: Outlet, caller: Caller) -> None:
        self._consumers, self._outlet, self._caller = parts.store.consumers, outlet, caller
        self._rate = Buckets(parts.config.subscribes)

    async def take(self, frame: wire.ClientCursor) -> None:
        """Move a cursor. Raises Problem 400 `invalid_frame`, and 503 when the store cannot."""
        try:
            self._check_rate()
            await self._consumers.put(self._caller, frame.thread_id, frame.consumer, frame.seq)
        except Problem as error:
            if error.status == 400:
                raise Problem(400, "invalid_frame", error.detail) from None
            if error.status >= 500:
                raise
            self._outlet.put(refusal(error, thread_id=frame.thread_id, ref=None))

    def _check_rate(self) -> None:
        wait_s = self._rate.take("")
        if wait_s:
            wait_ms = ceil(wait_s * 1000)
            raise Problem(429, "rate_limited", "too many cursors", retry_after_ms=wait_ms)
