"""The grants stream of one socket: a snapshot or a resume, then each change (9)."""

from scuba import wire
from scuba.server.socket.frames import snapshot_frames, write_frame
from scuba.server.socket.outlet import Outlet
from scuba.server.store import Store


class Granting:
    """A cursor in the principal's grants log, and a flag. Silent until it was asked for."""

    def __init__(self, store: Store, outlet: Outlet, principal_id: str, frame_bytes: int) -> None:
        self._store, self._outlet = store, outlet
        self._me, self._frame_bytes = principal_id, frame_bytes
        self._asked: wire.ClientSubscribeGrants | None = None
        self._cursor: int | None = None
        self._moved = False

    def ask(self, frame: wire.ClientSubscribeGrants) -> None:
        """Begin, or begin anew."""
        self._asked = frame
        self.moved()

    def moved(self) -> None:
        """The principal's grants have changed."""
        self._moved = True
        self._outlet.wake()

    @property
    def ready(self) -> bool:
        """Whether there is something to send."""
        return self._moved and (self._asked is not None or self._cursor is not None)

    async def serve(self) -> None:
        """Send what is due. Raises OSError when the peer has gone."""
        self._moved = False
        asked, self._asked = self._asked, None
        if asked is None:
            await self._resume(self._cursor, None)
        elif await self._resume(asked.after, asked.ref):
            caught_up = wire.ServerCaughtUp(stream="grants", grant_seq=self._cursor)
            await self._outlet.text(write_frame(caught_up))

    async def _resume(self, after: int | None, ref: str | None) -> bool:
        """Send what came after that; return False when it had to be a snapshot instead."""
        changes = None if after is None else await self._store.grants_since(self._me, after)
        if after is None or changes is None:
            await self._snapshot(ref)
            return False
        self._cursor = after
        for change in changes:
            self._cursor = change.grant_seq
            await self._outlet.text(write_frame(change))
        return True

    async def _snapshot(self, ref: str | None) -> None:
        self._cursor, grants = await self._store.grants_snapshot(self._me)
        for text in snapshot_frames(self._cursor, grants, self._frame_bytes, ref):
            await self._outlet.text(text)
