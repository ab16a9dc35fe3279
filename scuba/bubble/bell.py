"""A wake-up that is never missed: rung before or while somebody waits, once or often."""

import trio


class Bell:
    """One waiter looks at its state, waits, and looks again; everybody may ring."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        """Wake the waiter, or let its next wait return at once."""
        self._rung.set()

    async def wait(self) -> None:
        """Return once it was rung since the last return."""
        await self._rung.wait()
        self._rung = trio.Event()
