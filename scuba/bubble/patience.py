"""Calls that are repeated until they are answered, at a pace that all threads share (8.4)."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from actors.ports import Unavailable
from scuba.bubble.backoff import Backoff
from scuba.bubble.outage import Outage

T = TypeVar("T")
logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Calls that run or wait for their next try; fewer than HTTP takes, so that appends get through."""


class Patience:
    """Repeats calls while the server is unavailable, few at a time, so that none makes a storm."""

    def __init__(self, what: str = "reading from the Bubble server") -> None:
        self._places = trio.CapacityLimiter(AT_ONCE)
        self._outage = Outage(logger, what)

    async def until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` returns once it does not raise Unavailable; other errors pass."""
        backoff = Backoff()
        async with self._places:
            while True:
                try:
                    answer = await call()
                except Unavailable as error:
                    self._outage.failed(str(error))
                    # The place is kept: who waits for a sick server holds the others back.
                    await trio.sleep(backoff.failed(error.retry_after_s))
                else:
                    self._outage.recovered()
                    return answer
