"""One thread's place in its log, where its events go, and what follows its cursor (8.4)."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec
import trio

from scuba import wire
from scuba.bubble.backoff import Backoff
from scuba.bubble.lines import Line

M = TypeVar("M")


class Subscription(Generic[M]):
    """One thread as one inbox follows it. `cursor` is the seq of the last event handed over."""

    def __init__(
        self,
        thread_id: str,
        after: int,
        inbox: trio.MemorySendChannel[M],
        events: Callable[[Sequence[wire.Envelope]], M],
        caught_up: Callable[[int], M],
        went_back: Callable[[int], M] | None = None,
    ) -> None:
        """`went_back`: what to say of a log that ends below the cursor; None to go on silently."""
        self.thread_id, self.cursor, self.inbox = thread_id, after, inbox
        self.events, self.caught_up, self.went_back = events, caught_up, went_back
        self.state: Literal["asked", "live", "behind"] = "asked"
        self.ref = ""
        self.line: Line | None = None
        """The socket that carries it; None before it was asked for."""
        self.backoff = Backoff()
        self.scope = trio.CancelScope()
        """Of the task that waits for the inbox, while the state is `behind`."""


class Behind(msgspec.Struct, frozen=True):
    """The inbox was full: hand the message over when it has room, then ask anew at `cursor`."""

    subscription: Subscription[Any]
    message: Any
    cursor: int


class AskLater(msgspec.Struct, frozen=True):
    """Ask for the subscription anew after a while, unless it has changed by then."""

    subscription: Subscription[Any]
    ref: str
    after_s: float


Task = Behind | AskLater


def following(cursor: int, events: Sequence[wire.Envelope]) -> tuple[list[wire.Envelope], bool]:
    """Return the events that follow the cursor one by one, and whether a hole ended them (8.4)."""
    fresh: list[wire.Envelope] = []
    for event in events:
        if event.seq > cursor + 1:
            return fresh, True
        if event.seq == cursor + 1:
            fresh.append(event)
            cursor += 1
    return fresh, False
