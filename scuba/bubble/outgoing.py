"""What waits to be sent on the socket: one frame a subject, the latest, so it is bounded."""

import msgspec

from scuba.bubble.bell import Bell


class Outgoing:
    """Frames in the order in which their subjects came up. A later word replaces an earlier."""

    def __init__(self) -> None:
        self._frames: dict[str, msgspec.Struct] = {}
        self._bell = Bell()

    def put(self, subject: str, frame: msgspec.Struct) -> None:
        """Have a frame sent, in place of one about the same that was not sent yet."""
        self._frames[subject] = frame
        self._bell.ring()

    def clear(self) -> None:
        """Forget everything: it belonged to a connection that is over."""
        self._frames.clear()

    async def get(self) -> msgspec.Struct:
        """Return the next frame, and forget it; waits for one."""
        while not self._frames:
            await self._bell.wait()
        return self._frames.pop(next(iter(self._frames)))
