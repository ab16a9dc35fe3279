"""GrantWatcher: tells the root of every thread the bot joins or loses, live."""

import trio

from actors.messages import GrantChange
from actors.ports import ThreadLog


class GrantWatcher:
    """Follows the bot's own grants. Closes its outbox when it leaves."""

    def __init__(self, log: ThreadLog, outbox: trio.MemorySendChannel[GrantChange]) -> None:
        self._log, self._outbox = log, outbox

    async def run(self) -> None:
        """Serve until cancelled. A snapshot comes first, so a restart loses nothing."""
        async with self._outbox:
            await self._log.grants(self._outbox)
