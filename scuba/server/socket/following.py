"""The subscriptions of one socket: taken, refused, served in turn, and lost (8.3 to 8.6)."""

from math import ceil

import msgspec
import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.rates import Buckets
from scuba.server.socket.frames import EVENTS_A_FRAME, Parcel, pack, write_frame
from scuba.server.socket.outlet import Outlet
from scuba.server.socket.parts import SocketParts
from scuba.server.socket.subscription import Reader, Subscription
from scuba.server.socket.tail import line
from scuba.server.store import Caller


class Following:
    """Owns the subscriptions of a socket. The reader task takes frames, the writer task serves."""

    def __init__(self, parts: SocketParts, outlet: Outlet, reader: Reader, caller: Caller) -> None:
        self._store, self._hub, self._outlet = parts.store, parts.hub, outlet
        self._reader, self._caller = reader, caller
        self._limits, self._counts = parts.config.limits, parts.counts
        self._rate = Buckets(parts.config.subscribes)
        self._by_thread: dict[str, Subscription] = {}
        self._ready: dict[Subscription, None] = {}

    def moved(self, subscription: Subscription) -> None:
        """Serve it when its turn comes; one that waits already keeps its place."""
        self._ready[subscription] = None
        self._outlet.wake()

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""
        return bool(self._ready)

    def close(self) -> None:
        """End every subscription."""
        for thread_id in list(self._by_thread):
            self._drop(thread_id)

    # --- the reader ----------------------------------------------------------------------------

    async def subscribe(self, frame: wire.ClientSubscribe) -> None:
        """Answer `server.subscribed` or a refusal. What was followed of that thread has ended.

        Raises Problem 503 when the store cannot tell.
        """
        self._drop(frame.thread_id)
        try:
            subscription = self._admitted(frame.thread_id)
            head = await self._head(subscription)
            after = self._position(frame, head)
        except Problem as error:
            if error.status >= 500:
                raise
            self._drop(frame.thread_id)
            self._refuse(error, frame.thread_id, frame.ref)
            return
        self._outlet.put(
            wire.ServerSubscribed(
                thread_id=frame.thread_id, after=after, last_seq=head, ref=frame.ref
            )
        )
        subscription.start(after, head)

    def unsubscribe(self, frame: wire.ClientUnsubscribe) -> None:
        """End a subscription; of a thread not followed it is no fault."""
        self._drop(frame.thread_id)
        self._outlet.put(
            wire.ServerUnsubscribed(thread_id=frame.thread_id, reason="client", ref=frame.ref)
        )

    def _admitted(self, thread_id: str) -> Subscription:
        wait_s = self._rate.take("")
        if wait_s:
            self._counts.slow_subscribes += 1
            raise Problem(
                429, "rate_limited", "too many subscribes", retry_after_ms=ceil(wait_s * 1000)
            )
        if len(self._by_thread) >= self._limits.subscriptions:
            raise Problem(409, "too_many_subscriptions", "this socket has all it may have")
        subscription = self._hub.follow(thread_id, self._reader)
        self._by_thread[thread_id] = subscription
        return subscription

    def _position(self, frame: wire.ClientSubscribe, head: int) -> int:
        if frame.log_epoch not in (None, self._store.log_epoch):
            raise Problem(
                409, "epoch_changed", "this is another log", log_epoch=self._store.log_epoch
            )
        if frame.after == "head":
            return head
        if frame.after < 0:
            raise Problem(400, "invalid_frame", "after is below 0")
        if frame.after > head:
            raise Problem(409, "future_cursor", "after is beyond the log", last_seq=head)
        return frame.after

    # --- the writer ----------------------------------------------------------------------------

    async def serve_next(self) -> None:
        """Send the next frame of whoever waits longest. Raises OSError when the peer has gone."""
        subscription = next(iter(self._ready))
        del self._ready[subscription]
        try:
            await self._serve(subscription)
        except Problem as error:
            if error.status >= 500:
                raise
            if subscription.alive:
                self._drop(subscription.thread_id)
                self._refuse(error, subscription.thread_id, None)

    async def _serve(self, subscription: Subscription) -> None:
        if subscription.alive and subscription.doubted:
            try:
                await self._head(subscription)
            except Problem as error:
                if error.code != "thread_not_found":
                    raise
                self._lost(subscription)
        parcel = await self._next(subscription) if subscription.open else None
        if parcel is not None and parcel.seq is not None and subscription.open:
            subscription.cursor = parcel.seq
            live = subscription.goal is None and not subscription.behind
            await self._outlet.parcel(parcel)
            self._count(parcel, subscription.followed.told_at if live else None)
        if subscription.open:
            await self._go_on(subscription, progress=parcel is not None)

    def _count(self, parcel: Parcel, told_at: float | None) -> None:
        self._counts.sent(parcel.count, len(parcel.text))
        if told_at is not None:
            self._counts.fan_out_s.add(trio.current_time() - told_at)

    async def _go_on(self, subscription: Subscription, *, progress: bool) -> None:
        goal = subscription.due()
        # What was said while it subscribed lies beyond the goal, and no further news may come
        if subscription.behind and (progress or goal is not None):
            self.moved(subscription)
        if goal is not None:
            caught_up = wire.ServerCaughtUp(thread_id=subscription.thread_id, seq=goal)
            await self._outlet.text(write_frame(caught_up))

    async def _next(self, subscription: Subscription) -> Parcel | None:
        """Return the frame that comes next, up to the goal first; None when nothing does."""
        if not subscription.behind or subscription.cursor == subscription.goal:
            return None
        me, after, room = self._caller.id, subscription.cursor, self._limits.frame_bytes
        parcel = subscription.followed.tail.parcel(after, me, subscription.goal, room)
        if parcel is None or not parcel.count:  # another server's are in the log only
            events = await self._store.read(
                me, subscription.thread_id, after, limit=EVENTS_A_FRAME, max_bytes=room
            )
            lines = [line(event, me) for event in events]
            goal = subscription.head if subscription.goal is None else subscription.goal
            parcel = pack(subscription.thread_id, lines, goal, room)
        return parcel if parcel.count else None

    # --- both ----------------------------------------------------------------------------------

    async def _head(self, subscription: Subscription) -> int:
        """Return the thread's last seq, with all doubt settled. Problem 404: may not read."""
        while True:
            doubts = subscription.doubts
            role, last_seq = await self._store.role_on(self._caller, subscription.thread_id)
            if doubts == subscription.doubts:
                break
        if role is None:
            raise Problem(404, "thread_not_found", "no such thread")
        subscription.settle(doubts, last_seq)
        return last_seq

    def _lost(self, subscription: Subscription) -> None:
        if subscription.alive:
            self._drop(subscription.thread_id)
            self._outlet.put(
                wire.ServerUnsubscribed(thread_id=subscription.thread_id, reason="revoked")
            )

    def _refuse(self, error: Problem, thread_id: str, ref: str | None) -> None:
        self._outlet.put(refusal(error, thread_id=thread_id, ref=ref))

    def _drop(self, thread_id: str) -> None:
        subscription = self._by_thread.pop(thread_id, None)
        if subscription is not None:
            self._hub.unfollow(subscription)
            self._ready.pop(subscription, None)


def refusal(error: Problem, *, thread_id: str | None, ref: str | None) -> wire.ServerError:
    """Return a Problem as a frame; of its own fields those that the frame knows (8.5)."""
    known = {"last_seq", "first_seq", "log_epoch", "retry_after_ms"}
    fields = {name: value for name, value in error.fields.items() if name in known}
    frame = wire.ServerError(code=error.code, detail=error.detail, thread_id=thread_id, ref=ref)
    return msgspec.structs.replace(frame, **fields)
