"""Whether the server can take work: one light commit answers all who ask within a second (14.1)."""

from collections.abc import Awaitable, Callable

import trio

from scuba.errors import Problem

KEPT_S = 1.0
"""Anybody may ask, so an answer is good for so long."""
PATIENCE_S = 2.0
"""A commit that takes longer counts as one that cannot be done."""


class Readiness:
    """Asks by `check`, which raises Problem when nothing can be committed; never two at once."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self._good_until = float("-inf")
        self._failed = False
        self._asking: trio.Event | None = None

    async def require(self) -> None:
        """Return when the store can commit. Raises Problem 503 that names it."""
        while trio.current_time() >= self._good_until:
            if self._asking is None:
                await self._ask()
            else:
                await self._asking.wait()
        if self._failed:
            raise Problem(503, "unavailable", "not ready: store", retry_after=1)

    async def _ask(self) -> None:
        self._asking = asking = trio.Event()
        try:
            with trio.move_on_after(PATIENCE_S) as patience:
                self._failed = not await self._commits()
            self._failed = self._failed or patience.cancelled_caught
            self._good_until = trio.current_time() + KEPT_S
        finally:
            self._asking = None
            asking.set()

    async def _commits(self) -> bool:
        try:
            await self._check()
        except Problem:
            return False
        return True
