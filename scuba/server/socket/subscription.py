"""What one reader of one thread has been sent, and whether it may still be sent more (8.3, 8.6)."""

from typing import Protocol

from scuba.server.socket.tail import Tail


class Reader(Protocol):
    """A socket, as those see it who have news for it. Nothing here waits."""

    principal_id: str
    token_id: str | None
    instance_id: str | None

    def moved(self, subscription: "Subscription") -> None:
        """There is something to do for one of its subscriptions."""
        ...

    def grants_moved(self) -> None:
        """The grants of its principal have changed."""
        ...

    def token_moved(self) -> None:
        """Its token may have ended."""
        ...

    def end(self, code: int, reason: str) -> None:
        """Close it, after what it was sent already."""
        ...


class Followed:
    """A thread that has subscriptions: its newest events and how far its log goes."""

    def __init__(self, thread_id: str) -> None:
        self.tail = Tail(thread_id)
        self.head = 0
        self.told_at = 0.0
        """When its newest event was committed, on the trio clock."""
        self.subscriptions: set[Subscription] = set()


class Subscription:
    """A cursor and a flag, not a queue (8.8). Every change of it is synchronous.

    It is born in doubt: nothing may be sent before the reader's role was looked up, and each
    `AccessChanged` puts it in doubt again. `settle` ends the doubt that `doubts` counted before
    the look-up; a newer one stays.
    """

    def __init__(self, thread_id: str, reader: Reader, followed: Followed) -> None:
        self.thread_id, self.reader, self.followed = thread_id, reader, followed
        self.cursor = 0
        self._seen_head = 0
        self.goal: int | None = None
        """The head at subscribe time; None once its `caught_up` was sent."""
        self.started = False
        self.alive = True
        self.doubts = 1
        self._settled = 0

    @property
    def doubted(self) -> bool:
        """Whether the role has to be looked up before anything more is sent."""
        return self.doubts != self._settled

    @property
    def open(self) -> bool:
        """Whether events may be sent now."""
        return self.alive and self.started and not self.doubted

    @property
    def behind(self) -> bool:
        """Whether the log goes further than what was sent."""
        return self.cursor < self.head

    @property
    def head(self) -> int:
        """How far events may be sent: what was told, or there when the role was looked up.

        The log may go further already; then what ends this access may have been told as little.
        """
        return max(self.followed.head, self._seen_head)

    def doubt(self) -> None:
        """Send nothing more until the role was looked up again."""
        self.doubts += 1
        if self.started:
            self.reader.moved(self)

    def settle(self, doubts: int, head: int) -> None:
        """The role was looked up after `doubts` had been counted: it may read up to `head`."""
        self._settled = doubts
        self._seen_head = max(self._seen_head, head)

    def start(self, after: int, head: int) -> None:
        """Begin to send what comes after `after`; `head` is where the log ends now."""
        self.cursor, self.goal, self.started = after, head, True
        self._seen_head = max(self._seen_head, head)
        self.reader.moved(self)

    def due(self) -> int | None:
        """Return the seq of the `caught_up` that is owed now, once."""
        if self.goal is None or self.cursor < self.goal:
            return None
        goal, self.goal = self.goal, None
        return goal
