"""Which runs answer a message, and when all of them are over. No I/O."""

from typing import TypeVar

import msgspec

from scuba.wire import Envelope, Struct

T = TypeVar("T", bound=Struct)


class _Trigger(Struct, frozen=True, kw_only=True):
    through_seq: int | None = None
    task_id: str | None = None


class _Parent(Struct, frozen=True, kw_only=True):
    run_id: str = ""


class _Started(Struct, frozen=True, kw_only=True):
    trigger: _Trigger | None = None
    parent: _Parent | None = None


class _Finished(Struct, frozen=True, kw_only=True):
    status: str = "completed"


class Answer:
    """Watches a thread for the answer to a message that was whole at `seq`."""

    def __init__(self, seq: int) -> None:
        self._seq = seq
        self._open: set[str] = set()
        self.status: str | None = None
        """The last one's status, once every answering run is over."""

    def see(self, event: Envelope) -> bool:
        """Take the next event; return whether the answer is over."""
        if event.seq <= self._seq or event.run_id is None:
            return False
        if event.type == "run_started" and self._answers(event):
            self._open.add(event.run_id)
        elif event.type == "run_finished" and event.run_id in self._open:
            self._open.remove(event.run_id)
            if not self._open:
                self.status = _read(event, _Finished()).status
                return True
        return False

    def _answers(self, event: Envelope) -> bool:
        """Return whether a run has our message among its input; one that does not say may."""
        started = _read(event, _Started())
        trigger = started.trigger or _Trigger()
        if started.parent is not None or trigger.task_id is not None:
            return False  # a sub-agent's, or about a task
        return trigger.through_seq is None or trigger.through_seq >= self._seq


def _read(event: Envelope, otherwise: T) -> T:
    try:
        return msgspec.json.decode(event.payload, type=type(otherwise))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return otherwise
