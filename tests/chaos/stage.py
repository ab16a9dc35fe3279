"""A trio loop in a worker thread, in which a world lives on between the steps of a plain test."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

import trio
from outcome import Error, Outcome, acapture, capture

W = TypeVar("W")
Step = Callable[[W], Awaitable[None]]

STEP_S = 120.0
"""Longest step; more is a hang, and the test says where."""
GONE = (trio.RunFinishedError, trio.BrokenResourceError, trio.ClosedResourceError)


class Stage(Generic[W]):
    """Owns the loop and the world in it. Close it."""

    def __init__(self, open_: Callable[[], AbstractAsyncContextManager[W]]) -> None:
        """Open the world; it is there when this returns. Raises what opening it raises."""
        self._open = open_
        self._told: SimpleQueue[Outcome[None]] = SimpleQueue()
        self._steps, self._next = trio.open_memory_channel[Step[W]](1)
        self._thread = threading.Thread(target=self._run, name="stage", daemon=True)
        self._thread.start()
        self._told.get(timeout=STEP_S).unwrap()

    def do(self, step: Step[W]) -> None:
        """Do something with the world. Raises what it raises, or what the world has died of."""
        assert self._thread.is_alive() or not self._told.empty(), "the world has ended"
        with suppress(*GONE):  # then its end tells why
            trio.from_thread.run_sync(self._steps.send_nowait, step, trio_token=self._token)
        self._told.get(timeout=STEP_S).unwrap()

    def close(self) -> None:
        """End the world. Raises what it had died of, if nobody was told yet."""
        with suppress(trio.RunFinishedError):  # it ends by itself just now
            self._token.run_sync_soon(self._steps.close)
        self._thread.join(STEP_S)
        assert not self._thread.is_alive(), "the world does not end"
        while not self._told.empty():
            self._told.get().unwrap()

    def _run(self) -> None:
        ended: Outcome[None] = capture(trio.run, self._live)
        if isinstance(ended, Error):
            self._told.put(ended)

    async def _live(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with self._open() as world, self._next:
            self._told.put(capture(lambda: None))
            async for step in self._next:
                with trio.fail_after(STEP_S):
                    told = await acapture(step, world)
                    if isinstance(told, Error) and isinstance(told.error, trio.Cancelled):
                        told.unwrap()  # the world ends, and its end tells why
                    self._told.put(told)
