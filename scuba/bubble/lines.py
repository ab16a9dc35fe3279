"""Which socket carries which thread: a server takes only so many subscriptions a socket (8.5, 12).

No I/O here. The first line carries all that it may, further ones what is beyond.
"""

import logging
import math
from collections.abc import Callable, Iterator

import trio

from scuba.bubble.outgoing import Outgoing

logger = logging.getLogger(__name__)

MOST_LINES = 16
"""As many sockets as a server lets one principal have, unless it is told otherwise (12)."""


class Line(Outgoing):
    """What one socket has to send, and the threads that it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()
        self.is_connected = False
        self.was_connected = False
        self.scope = trio.CancelScope()
        """Of the task that keeps the socket; cancelled when it carries nothing any more."""


class Lines:
    """The lines of one principal. `opened` hears of each further one, and keeps a socket for it."""

    def __init__(self, opened: Callable[[Line], None] = lambda _: None) -> None:
        self.first = Line()
        self._opened = opened
        self._all = [self.first]
        self._most: float = math.inf

    def __len__(self) -> int:
        """Return how many lines there are."""
        return len(self._all)

    def __iter__(self) -> Iterator[Line]:
        """Iterate over a copy, the first line first."""
        return iter(list(self._all))

    def told(self, most: int) -> None:
        """Take note of how many subscriptions the server says that a socket may have."""
        self._most = max(1, most)

    def refused(self, line: Line) -> None:
        """Take note that the server takes no more on this line than it carries, less one."""
        self._most = max(1, min(self._most, len(line.threads) - 1))

    def seat(self, thread_id: str, line: Line | None) -> Line:
        """Return the line for a thread: the one that it has, unless that carries too many.

        When all are full and no more may be opened, a line carries more than it may: the server
        refuses that, and it is asked again later.
        """
        if line is not None and len(line.threads) <= self._most:
            return line
        seat = self._free() or self._open() or line or self.first
        if line is not None and seat is not line:
            self.leave(thread_id, line)
        seat.threads.add(thread_id)
        return seat

    def leave(self, thread_id: str, line: Line) -> None:
        """Take a thread off its line; a further line that carries nothing any more is closed."""
        line.threads.discard(thread_id)
        if not line.threads and line is not self.first and line in self._all:
            self._all.remove(line)
            line.scope.cancel()
            logger.info("closed a socket that carried nothing any more; %d are kept", len(self))

    def _free(self) -> Line | None:
        return next((line for line in self._all if len(line.threads) < self._most), None)

    def _open(self) -> Line | None:
        if len(self._all) >= MOST_LINES:
            return None
        line = Line()
        self._all.append(line)
        logger.info("the sockets are full; opening number %d", len(self))
        self._opened(line)
        return line
