"""Which threads the bot takes part in: what the server says, what we have said on (9). No I/O."""

import msgspec

from actors.messages import GrantChange, ThreadGranted, ThreadRevoked
from scuba import wire
from scuba.bubble.bell import Bell

GrantFrame = wire.ServerGrantsSnapshot | wire.ServerGrant | wire.ServerCaughtUp


class GrantBook:
    """What is true beside what was told; the difference is what to tell next.

    So a reader that is slow costs no memory, and a snapshot needs no other treatment than a
    change. Only grants on threads count; a change of role alone is nothing.
    """

    def __init__(self, number: int = 0) -> None:
        """`number`: of this book on its socket, so that answers to an earlier one are not taken."""
        self._number = number
        self._grants: dict[str, wire.Grant] = {}
        self._told: dict[str, int] = {}
        self._differing: dict[str, None] = {}
        self._snapshot: dict[str, wire.Grant] = {}
        self._after: int | None = None
        self._asked = 0
        self.bell = Bell()

    @property
    def ref(self) -> str:
        """Return what tells answers to the latest request from those to earlier ones."""
        return f"g{self._number}.{self._asked}"

    def ask(self) -> wire.ClientSubscribeGrants:
        """Return the request for what we do not know yet, or for everything."""
        self._asked += 1
        self._snapshot = {}
        return wire.ClientSubscribeGrants(after=self._after, ref=self.ref)

    def ask_all(self) -> wire.ClientSubscribeGrants:
        """Return the request for everything, whatever we know."""
        self._after = None
        return self.ask()

    def take(self, frame: GrantFrame) -> bool:
        """Note what a frame says; return False when one was left out, so that all must be asked."""
        match frame:
            case wire.ServerGrantsSnapshot(ref=ref):
                if ref in (None, self.ref):
                    self._take_snapshot(frame)
            case wire.ServerGrant(grant_seq=seq):
                if self._after is None or seq <= self._after:
                    return True
                if seq > self._after + 1:
                    self._after = None
                    return False
                self._after = seq
                self._take_change(frame)
            case wire.ServerCaughtUp():
                pass
        return True

    def next_change(self) -> GrantChange | None:
        """Return a difference between what is true and what was told, or None."""
        while self._differing:
            thread_id = next(iter(self._differing))
            grant = self._grants.get(thread_id)
            told = self._told.get(thread_id)
            if grant is None and told is not None:
                return ThreadRevoked(thread_id)
            if grant is not None and told != _joined(grant):
                return _granted(thread_id, grant)
            del self._differing[thread_id]
        return None

    def told(self, change: GrantChange) -> None:
        """Note that a change was handed over."""
        if isinstance(change, ThreadRevoked):
            del self._told[change.thread_id]
        else:
            self._told[change.thread_id] = change.joined_seq

    def _take_snapshot(self, frame: wire.ServerGrantsSnapshot) -> None:
        for grant in frame.grants:
            if grant.target.type == "thread" and grant.target.thread_id is not None:
                self._snapshot[grant.target.thread_id] = grant
        if frame.more:
            return
        self._grants, self._snapshot = self._snapshot, {}
        self._after = frame.grant_seq
        self._differing = dict.fromkeys([*self._grants, *self._told])
        self.bell.ring()

    def _take_change(self, frame: wire.ServerGrant) -> None:
        thread_id = frame.grant.target.thread_id
        if frame.grant.target.type != "thread" or thread_id is None:
            return
        if frame.action == "revoked":
            self._grants.pop(thread_id, None)
        else:
            old = self._grants.get(thread_id)
            joined_seq = frame.grant.joined_seq or (old.joined_seq if old is not None else None)
            self._grants[thread_id] = msgspec.structs.replace(frame.grant, joined_seq=joined_seq)
        self._differing[thread_id] = None
        self.bell.ring()


def _joined(grant: wire.Grant) -> int:
    return grant.joined_seq or 1


def _granted(thread_id: str, grant: wire.Grant) -> ThreadGranted:
    return ThreadGranted(
        thread_id=thread_id,
        joined_seq=_joined(grant),
        last_seq=grant.last_seq,
        open_runs=tuple(grant.open_runs or ()),
    )
