"""Who is connected and follows what: turns each commit into wake-ups (16.4)."""

from collections import defaultdict
from typing import assert_never

import trio

from scuba import wire
from scuba.server.socket.subscription import Followed, Reader, Subscription
from scuba.server.socket.tail import Tails
from scuba.server.store import (
    AccessChanged,
    Change,
    Committed,
    GrantChanged,
    Missed,
    Moved,
    PrincipalDisabled,
    TokenEnded,
)


class Hub:
    """Owns no task: the store calls `heard` right after a commit, before anything is answered.

    So when a revoke has been answered, the subscriptions it ends are in doubt already (3.7).
    """

    def __init__(self) -> None:
        self._followed: dict[str, Followed] = {}
        self._tails = Tails()
        self._readers: defaultdict[str, set[Reader]] = defaultdict(set)
        self.connected = 0
        """Sockets, those included that have not said who they are."""

    @property
    def subscriptions(self) -> int:
        """How many threads are followed, counted for each socket that does."""
        return sum(len(followed.subscriptions) for followed in self._followed.values())

    @property
    def tail_bytes(self) -> int:
        """What the newest events of the followed threads take."""
        return self._tails.size_bytes

    # --- the sockets ---------------------------------------------------------------------------

    def join(self, reader: Reader) -> None:
        """A socket knows its principal now."""
        self._readers[reader.principal_id].add(reader)

    def leave(self, reader: Reader) -> None:
        """A socket has gone; again is well."""
        readers = self._readers.get(reader.principal_id, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(reader.principal_id, None)

    def readers(self) -> list[Reader]:
        """Return every socket with a principal."""
        return [reader for readers in self._readers.values() for reader in readers]

    def sockets_of(self, principal_id: str) -> int:
        """Return how many sockets that principal has."""
        return len(self._readers.get(principal_id, ()))

    def other_instances(self, reader: Reader) -> int:
        """Return how many sockets of the same principal name another instance (8.2)."""
        others = self._readers.get(reader.principal_id, ())
        return sum(other.instance_id not in (None, reader.instance_id) for other in others)

    def follow(self, thread_id: str, reader: Reader) -> Subscription:
        """Return a new subscription, in doubt and not started."""
        followed = self._followed.get(thread_id)
        if followed is None:
            followed = self._followed[thread_id] = Followed(thread_id)
        subscription = Subscription(thread_id, reader, followed)
        followed.subscriptions.add(subscription)
        return subscription

    def unfollow(self, subscription: Subscription) -> None:
        """End a subscription; again is well."""
        followed, thread_id = subscription.followed, subscription.thread_id
        subscription.alive = False
        followed.subscriptions.discard(subscription)
        if not followed.subscriptions and self._followed.get(thread_id) is followed:
            del self._followed[thread_id]
            self._tails.drop(followed.tail)

    # --- the store -----------------------------------------------------------------------------

    def heard(self, change: Change) -> None:
        """Take one change of the store."""
        match change:
            case Committed(thread_id, events):
                self._committed(thread_id, events)
            case AccessChanged(principal_id, thread_id):
                self._access_changed(principal_id, thread_id)
            case GrantChanged(principal_id):
                for reader in self._readers.get(principal_id, ()):
                    reader.grants_moved()
            case TokenEnded(token_id):
                for reader in self.readers():
                    if reader.token_id == token_id:
                        reader.token_moved()
            case PrincipalDisabled(principal_id):
                for reader in self._readers.get(principal_id, ()):
                    reader.end(wire.Close.REFUSED, "this principal is disabled")
            case Moved(thread_id, last_seq):
                self._moved(thread_id, last_seq)
            case Missed():
                self._missed()
            case _:
                assert_never(change)

    def _committed(self, thread_id: str, events: tuple[wire.Envelope, ...]) -> None:
        followed = self._followed.get(thread_id)
        if followed is None or not events:
            return
        self._tails.add(followed.tail, events)
        self._moved(thread_id, events[-1].seq)

    def _moved(self, thread_id: str, last_seq: int) -> None:
        """Wake who follows; what the tail lacks they read from the log."""
        followed = self._followed.get(thread_id)
        if followed is None:
            return
        followed.head = max(followed.head, last_seq)
        followed.told_at = trio.current_time()
        for subscription in followed.subscriptions:
            if subscription.started:
                subscription.reader.moved(subscription)

    def _access_changed(self, principal_id: str | None, thread_id: str | None) -> None:
        """Put in doubt what is touched; a subthread's id begins with that of its ancestors."""
        for followed_id, followed in self._followed.items():
            if thread_id in (None, followed_id) or followed_id.startswith(f"{thread_id}."):
                for subscription in followed.subscriptions:
                    if principal_id in (None, subscription.reader.principal_id):
                        subscription.doubt()

    def _missed(self) -> None:
        """Have every socket look at its token, its grants, and the threads that it follows."""
        for reader in self.readers():
            reader.token_moved()
            reader.grants_moved()
        self._access_changed(None, None)
