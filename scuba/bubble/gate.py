"""The gate of all appends: open while the server works, one at a time while it does not (8.4).

Each thread repeats its own append; here they share what one of them has learned, so that many
threads with something to say make no storm on a server that is down.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from actors.ports import Refused, Unavailable
from scuba.bubble.backoff import Backoff
from scuba.bubble.outage import Outage

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Gate:
    """Closed by a call that finds the server down, opened by one that finds it up."""

    def __init__(self, what: str = "appending to the Bubble server") -> None:
        self._backoff = Backoff()
        self._outage = Outage(logger, what)
        self._asking = trio.Lock()
        """Held by the one call that is made while the gate is closed."""
        self._is_closed = False
        self._not_before = 0.0

    async def through(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call once it may be made, and return what it does; raises what it raises.

        While the gate is closed, who comes waits for its turn: its call is the next attempt.
        """
        if self._is_closed:
            async with self._asking:
                if self._is_closed:
                    await trio.sleep_until(self._not_before)
                    return await self._ask(call)
        return await self._ask(call)

    async def _ask(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await call()
        except Unavailable as error:
            self._outage.failed(str(error))
            if not error.is_limit:
                self._close(error.retry_after_s)
            raise
        except Refused:
            self._open()
            raise
        self._open()
        return answer

    def _close(self, asked_s: float | None) -> None:
        now = trio.current_time()
        if self._is_closed and now < self._not_before:
            return  # asked before it closed: the same outage, counted already
        self._is_closed = True
        self._not_before = now + self._backoff.failed(asked_s)

    def _open(self) -> None:
        self._is_closed = False
        self._backoff.succeeded()
        self._outage.recovered()
