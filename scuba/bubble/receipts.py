"""How far the bot has come on each thread, said to the others now and then (10). Nobody waits."""

from collections.abc import Callable

import trio

from scuba import wire
from scuba.bubble.bell import Bell

EVERY_S = 3.0
"""Between two receipts for a thread; the latest seq is what is said."""


class Receipts:
    """What is still to be said: one seq a thread. `send` takes a frame, or drops it."""

    def __init__(self, send: Callable[[wire.ClientCursor], None]) -> None:
        self._send = send
        self._seqs: dict[str, int] = {}
        self._bell = Bell()

    def mark(self, thread_id: str, seq: int) -> None:
        """Have it said soon that a thread is settled up to `seq`."""
        self._seqs[thread_id] = seq
        self._bell.ring()

    async def run(self) -> None:
        """Say it, at most once in `EVERY_S` a thread, until cancelled."""
        while True:
            await self._bell.wait()
            seqs, self._seqs = self._seqs, {}
            for thread_id, seq in seqs.items():
                self._send(wire.ClientCursor(thread_id=thread_id, seq=seq))
            await trio.sleep(EVERY_S)
