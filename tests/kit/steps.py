"""Cuts a test short at any step that any task takes, for sweeps over all of them."""

from collections.abc import Callable
from types import TracebackType

import trio


class After(trio.abc.Instrument):
    """Does something after a number of task steps, counted while the block runs."""

    def __init__(self, steps: int, then: Callable[[], object]) -> None:
        self.left, self._then = steps, then

    def __enter__(self) -> "After":
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trio.lowlevel.remove_instrument(self)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._then()
