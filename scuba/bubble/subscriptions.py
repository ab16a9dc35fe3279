"""Each thread's place in its log, and what a frame about it leads to (8.3 to 8.6). No task here."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import trio

from scuba import wire
from scuba.bubble.lines import Line, Lines
from scuba.bubble.subscription import AskLater, Behind, Subscription, Task, following
from scuba.errors import AnotherLog

M = TypeVar("M")
logger = logging.getLogger(__name__)

NEW_LOG_HINT = (
    "the server was restored or replaced; make sure that it is the right one, "
    "then start anew with an empty state directory"
)

ThreadFrame = (
    wire.ServerSubscribed
    | wire.ServerEvents
    | wire.ServerCaughtUp
    | wire.ServerUnsubscribed
    | wire.ServerError
)


class Subscriptions:
    """All subscriptions of all sockets. Frames go to their lines; what takes time is returned.

    Frames of an earlier subscription to the same thread are told apart by `ref` and dropped.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._all: dict[str, Subscription[Any]] = {}
        self._asked = 0
        self.log_epoch: str | None = None
        self.laggards = 0
        self.gaps = 0

    def __len__(self) -> int:
        """Return how many threads are followed."""
        return len(self._all)

    def __iter__(self) -> Iterator[Subscription[Any]]:
        """Iterate over a copy."""
        return iter(list(self._all.values()))

    def add(self, subscription: Subscription[Any]) -> None:
        """Follow a thread; whoever followed it before gets nothing more."""
        old = self._all.get(subscription.thread_id)
        if old is not None:
            old.scope.cancel()
            subscription.line = old.line
        self._all[subscription.thread_id] = subscription
        self.ask(subscription)

    def remove(self, subscription: Subscription[Any]) -> None:
        """Stop following a thread: from now on its inbox gets nothing."""
        subscription.scope.cancel()
        if self._all.get(subscription.thread_id) is subscription:
            del self._all[subscription.thread_id]
            self._unsubscribe(subscription)
            self._leave(subscription)

    def ask(self, subscription: Subscription[Any]) -> None:
        """Have the server send what follows the cursor, if somebody still follows the thread."""
        if self._all.get(subscription.thread_id) is not subscription:
            return
        line = self._seat(subscription)
        self._asked += 1
        subscription.state, subscription.ref = "asked", f"s{self._asked}"
        line.put(
            subscription.thread_id,
            wire.ClientSubscribe(
                thread_id=subscription.thread_id,
                after=subscription.cursor,
                log_epoch=self.log_epoch,
                ref=subscription.ref,
            ),
        )

    def ask_all(self, line: Line) -> None:
        """Ask on a new connection for all that it carries but those whose inbox is still full."""
        for subscription in self.carried_by(line):
            self.ask(subscription)

    def carried_by(self, line: Line) -> list[Subscription[Any]]:
        """Return the subscriptions of a line, without those whose inbox is full."""
        return [one for one in self if one.line is line and one.state != "behind"]

    def receipt(self, frame: wire.ClientCursor) -> None:
        """Send a receipt on the thread's line, if it has one that is up (10)."""
        subscription = self._all.get(frame.thread_id)
        line = None if subscription is None else subscription.line
        if line is None or not line.is_connected:
            logger.debug("no receipt for seq %d of thread %s", frame.seq, frame.thread_id)
            return
        line.put(f"receipt {frame.thread_id}", frame)

    def still_asked(self, later: AskLater) -> bool:
        """Return whether nothing has changed since `later` was returned."""
        subscription = later.subscription
        return subscription.state == "asked" and subscription.ref == later.ref

    def put_behind(self, subscription: Subscription[Any]) -> None:
        """Take a thread off the socket; somebody else hands over what it missed and asks anew."""
        subscription.state = "behind"
        subscription.scope = trio.CancelScope()
        self._unsubscribe(subscription)

    def take(self, frame: ThreadFrame, line: Line) -> Task | None:
        """Act on a line's frame about one thread. Raises ScubaError for another log (8.5)."""
        subscription = self._all.get(frame.thread_id or "")
        if subscription is None or subscription.state == "behind":
            return None
        if subscription.line is not line:
            return None  # the echo of a line that it has left
        match frame:
            case wire.ServerSubscribed(ref=ref):
                if ref == subscription.ref:
                    subscription.state = "live"
                return None
            case wire.ServerError(ref=ref):
                return self._refused(subscription, frame) if ref == subscription.ref else None
            case wire.ServerUnsubscribed():
                return self._unsubscribed(subscription, frame)
            case wire.ServerEvents() | wire.ServerCaughtUp():
                if subscription.state != "live":
                    return None
                if isinstance(frame, wire.ServerEvents):
                    return self._events(subscription, frame.events)
                return self._hand_over(
                    subscription,
                    subscription.caught_up(frame.seq or subscription.cursor),
                    subscription.cursor,
                )

    def _events(
        self, subscription: Subscription[Any], events: Sequence[wire.Envelope]
    ) -> Task | None:
        fresh, has_hole = following(subscription.cursor, events)
        task: Task | None = None
        if fresh:
            subscription.backoff.succeeded()
            task = self._hand_over(subscription, subscription.events(fresh), fresh[-1].seq)
        if has_hole and subscription.state == "live":
            task = self._hole(subscription)
        return task

    def _hand_over(self, subscription: Subscription[M], message: M, cursor: int) -> Behind | None:
        try:
            subscription.inbox.send_nowait(message)
        except trio.WouldBlock:
            self.laggards += 1
            self.put_behind(subscription)
            return Behind(subscription, message, cursor)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("nobody reads thread %s any more", subscription.thread_id)
            self.remove(subscription)
            return None
        subscription.cursor = cursor
        return None

    def _hole(self, subscription: Subscription[Any]) -> Task | None:
        """Start anew at the cursor: at once the first time, then with backoff (8.4)."""
        self.gaps += 1
        logger.error(
            "the server left out what follows seq %d of thread %s; asking for it again",
            subscription.cursor,
            subscription.thread_id,
        )
        if subscription.backoff.failures == 0:
            subscription.backoff.failed()
            self.ask(subscription)
            return None
        return self._later(subscription)

    def _later(self, subscription: Subscription[Any], least_s: float | None = None) -> AskLater:
        subscription.state = "asked"
        return AskLater(subscription, subscription.ref, subscription.backoff.failed(least_s))

    def _unsubscribe(self, subscription: Subscription[Any]) -> None:
        thread_id = subscription.thread_id
        if subscription.line is not None:
            subscription.line.put(thread_id, wire.ClientUnsubscribe(thread_id=thread_id))

    def _seat(self, subscription: Subscription[Any]) -> Line:
        seat = self._lines.seat(subscription.thread_id, subscription.line)
        if subscription.line is not seat:
            self._unsubscribe(subscription)
            subscription.line = seat
        return seat

    def _leave(self, subscription: Subscription[Any]) -> None:
        if subscription.line is not None:
            self._lines.leave(subscription.thread_id, subscription.line)

    def _too_many(self, subscription: Subscription[Any], line: Line) -> Task | None:
        """Ask on another line, or later when there can be no other (8.5)."""
        self._lines.refused(line)
        if self._seat(subscription) is line:
            return self._later(subscription)
        self.ask(subscription)
        return None

    def _unsubscribed(
        self, subscription: Subscription[Any], frame: wire.ServerUnsubscribed
    ) -> Task | None:
        if frame.reason == "client":  # the echo of an earlier subscription's end
            return None
        logger.info("thread %s was taken from us: %s", subscription.thread_id, frame.reason)
        subscription.state = "asked"
        return None if frame.reason == "revoked" else self._later(subscription)

    def _refused(self, subscription: Subscription[Any], error: wire.ServerError) -> Task | None:
        thread_id, cursor = subscription.thread_id, subscription.cursor
        match error.code:
            case "epoch_changed":
                raise another_log(self.log_epoch, error.log_epoch)
            case "future_cursor" if error.last_seq is not None and error.last_seq < cursor:
                return self._went_back(subscription, error.last_seq)
            case "thread_not_found":
                logger.info("thread %s cannot be read; its grant will tell", thread_id)
                return None
            case "too_many_subscriptions" if subscription.line is not None:
                return self._too_many(subscription, subscription.line)
            case "history_gone" if (error.first_seq or 0) > cursor + 1:
                resumes_at = error.first_seq or 0
                logger.error(
                    "thread %s no longer has seq %d to %d; going on without",
                    thread_id,
                    cursor + 1,
                    resumes_at - 1,
                )
                subscription.cursor = resumes_at - 1
                self.ask(subscription)
                return None
            case _:
                logger.warning(
                    "subscribing to thread %s: %s: %s", thread_id, error.code, error.detail
                )
                told_s = None if error.retry_after_ms is None else error.retry_after_ms / 1000
                return self._later(subscription, told_s)

    def _went_back(self, subscription: Subscription[Any], head: int) -> Task | None:
        """Go on at the head of a log that has lost its newest events (8.5, decision 29)."""
        logger.error(
            "thread %s ends at seq %d in the Bubble server's log, but was read up to %d: an older "
            "state of the server came back. What was in hand is put aside; going on from %d",
            subscription.thread_id,
            head,
            subscription.cursor,
            head,
        )
        if subscription.went_back is not None:
            return self._hand_over(subscription, subscription.went_back(head), head)
        subscription.cursor = head
        self.ask(subscription)
        return None


def another_log(known: str | None, found: str | None) -> AnotherLog:
    """Return the error that ends everything of the log that we were in."""
    return AnotherLog(
        f"the Bubble server's log is another one: its epoch is {found}, ours was {known}",
        NEW_LOG_HINT,
    )
