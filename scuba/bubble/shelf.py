"""The calls about artifacts, for a client that found them in `/v1/info` exactly as its own (11)."""

import base64
import hashlib

import msgspec

from scuba import wire
from scuba.bubble.address import fill
from scuba.bubble.calls import Calls
from scuba.wire import Route


class Artifacts(wire.Struct, frozen=True, kw_only=True):
    """A page of `GET /v1/threads/:threadId/artifacts` (11.2)."""

    items: list[wire.Artifact]
    next_cursor: str | None = None


_ARTIFACTS = msgspec.json.Decoder(Artifacts)
_ARTIFACT = msgspec.json.Decoder(wire.Artifact)
_VERSION = msgspec.json.Decoder(wire.ArtifactVersion)


class Shelf:
    """Each method is one attempt, and raises as those of `BubbleClient`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def artifacts(self, thread_id: str, *, limit: int) -> Artifacts:
        """Return the first page of a thread's artifacts, oldest first."""
        route = fill(Route.ARTIFACTS, thread_id=thread_id)
        return await self._calls.call("GET", route, _ARTIFACTS, query={"limit": str(limit)})

    async def artifact(self, artifact_id: str) -> wire.Artifact:
        """Return an artifact with its versions."""
        route = fill(Route.ARTIFACT, artifact_id=artifact_id)
        return await self._calls.call("GET", route, _ARTIFACT)

    async def create(self, thread_id: str, new: wire.NewArtifact) -> wire.Artifact:
        """Make an artifact without a version; with a key, the same one each time."""
        route = fill(Route.ARTIFACTS, thread_id=thread_id)
        return await self._calls.call("POST", route, _ARTIFACT, body=new)

    async def add_version(
        self,
        artifact_id: str,
        content: bytes,
        *,
        media_type: str,
        after: int,
        key: str,
        run_id: str | None = None,
    ) -> wire.ArtifactVersion:
        """Make `content` the version that follows `after`; with its key, once."""
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        headers = {
            "Content-Type": media_type,
            "Content-Digest": f"sha-256=:{digest}:",
            "If-Match": f'"{after}"',
            "Idempotency-Key": key,
        }
        route = fill(Route.VERSIONS, artifact_id=artifact_id)
        query = {} if run_id is None else {"runId": run_id}
        return await self._calls.call(
            "POST", route, _VERSION, query=query, body=content, headers=headers
        )

    async def content(self, artifact_id: str, version: int, most_bytes: int) -> bytes:
        """Return a version's first bytes. It must not be empty."""
        route = fill(Route.CONTENT, artifact_id=artifact_id, version=str(version))
        headers = {"Range": f"bytes=0-{most_bytes - 1}"}
        return (await self._calls.send("GET", route, headers=headers))[:most_bytes]
