"""Does something at the steps that tasks take: at one of them, for sweeps, or at each."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import trio


class EachStep(trio.abc.Instrument):
    """Does something after each task step while the block runs."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then

    def __enter__(self) -> Self:
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
        self._then()


class After(EachStep):
    """Does something once, after a number of task steps."""

    def __init__(self, steps: int, then: Callable[[], object]) -> None:
        super().__init__(then)
        self.left = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self._then()
