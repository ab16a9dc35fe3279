"""Which thread and run a task works for, for its log lines.

The thread's scope sets one `LogIds`; every task begun below it inherits the same object, so that a
line from the middle of a harness or of the client carries the run it belongs to.
"""

from contextvars import ContextVar


class LogIds:
    """The ids of one thread. ThreadActor moves `run_id` and `seq` with the run in hand."""

    __slots__ = ("run_id", "seq", "thread_id")

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.run_id: str | None = None
        self.seq: int | None = None
        """Of the input that the run answers."""


log_ids: ContextVar[LogIds | None] = ContextVar("log_ids", default=None)
