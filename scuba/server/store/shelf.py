"""Artifacts as the edge sees them (11.2): one method a thing, like the store it belongs to."""

import trio

from scuba import wire
from scuba.server.store import artifacts, versions
from scuba.server.store.changes import Caller
from scuba.server.store.ids import clock_ms, ordered_id
from scuba.server.store.versions import Content, NewVersion
from scuba.server.store.ways import Ways

DROP_S = 1.0
"""Longest time that a failed upload holds up its end to be forgotten; else it is swept later."""


class Shelf(Ways):
    """Every method raises Problem, as those of `Store` do."""

    async def create(
        self, caller: Caller, thread_id: str, body: wire.NewArtifact
    ) -> tuple[bool, wire.Artifact]:
        """Return whether it is new, and the artifact."""
        return await self._write(artifacts.create, caller, thread_id, body)

    async def listing(
        self, caller: Caller, thread_id: str, *, limit: int, after: str | None
    ) -> tuple[list[wire.Artifact], str | None]:
        """Return the artifacts of a thread, and where the next page begins."""
        return await self._read(artifacts.listing, caller, thread_id, limit=limit, after=after)

    async def whole(self, caller: Caller, artifact_id: str) -> wire.Artifact:
        """Return an artifact with its versions."""
        return await self._read(artifacts.whole, caller, artifact_id)

    # --- a new version -------------------------------------------------------------------------

    async def expect(self, caller: Caller, artifact_id: str, asked: NewVersion) -> bool:
        """Refuse a version before its content is read. Returns whether its key is known."""
        return await self._read(versions.expect, caller, artifact_id, asked)

    def new_content_id(self) -> str:
        """Return the id under which the pieces of one content are stored."""
        return ordered_id("cnt_", clock_ms())

    async def keep_piece(self, caller: Caller, content_id: str, start: int, piece: bytes) -> None:
        """Store a piece of a content to come."""
        await self._write(versions.keep_piece, caller, content_id, start, piece)

    async def add(
        self, caller: Caller, artifact_id: str, asked: NewVersion, content: Content
    ) -> tuple[bool, wire.ArtifactVersion]:
        """Return whether the version is new, and the version."""
        return await self._write(versions.add, caller, artifact_id, asked, content)

    async def drop(self, content_id: str) -> None:
        """Forget the pieces of a content that no version has; within `DROP_S`, also cancelled."""
        with trio.move_on_after(DROP_S, shield=True):
            await self._engine.write(lambda w: versions.drop(w, content_id))

    # --- a content -----------------------------------------------------------------------------

    async def version(
        self, caller: Caller, artifact_id: str, number: int
    ) -> tuple[str, wire.ArtifactVersion]:
        """Return the artifact's name and one of its versions."""
        return await self._read(versions.version, caller, artifact_id, number)

    async def piece(self, caller: Caller, artifact_id: str, number: int, start: int) -> bytes:
        """Return what comes at byte `start`, as far as one piece goes; access is looked at."""
        return await self._read(versions.piece, caller, artifact_id, number, start)
