"""Artifacts, the one extension that is served, and what a server offers: chapter 11."""

from collections.abc import Iterable
from pathlib import Path

from scuba.wire.base import Struct


class Manifest(Struct, frozen=True, kw_only=True):
    """An extension as `GET /v1/info` offers it (11.1)."""

    id: str
    version: str
    digest: str
    """`sha256:` and the hexadecimal digest of the extension's schema text."""


def loads(manifest: Manifest, offered: Iterable[Manifest]) -> bool:
    """Return whether a client that was built for `manifest` may use what the server offers.

    Only on an exact match; anything else counts as absent (11.1).
    """
    return any(
        (manifest.id, manifest.version, manifest.digest) == (found.id, found.version, found.digest)
        for found in offered
    )


ARTIFACTS = Manifest(
    id="artifacts",
    version="1.0.0",
    digest="sha256:a1f0afdad33b0cfa4df0608a7a2b68d336559e7e7e7e8b0b87116e4f2c397301",
)
"""What this build speaks."""


def artifacts_schema() -> bytes:
    """Return the extension's schema text, whose digest is in the manifest."""
    return Path(__file__).with_name("artifacts.schema.json").read_bytes()


class NewArtifact(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/artifacts` (11.2)."""

    name: str
    media_type: str
    key: str | None = None


class ArtifactVersion(Struct, frozen=True, kw_only=True):
    """One immutable version of an artifact (11.2)."""

    version: int
    size: int
    """In bytes."""
    digest: str
    """`sha256:` and the hexadecimal digest of the bytes."""
    media_type: str
    created_by: str
    created_at: str


class Artifact(Struct, frozen=True, kw_only=True):
    """A named thing on a thread; `versions`, oldest first, where one is asked for (11.2)."""

    artifact_id: str
    thread_id: str
    name: str
    media_type: str
    latest_version: int
    """0 until there is one."""
    created_by: str
    created_at: str
    versions: list[ArtifactVersion] | None = None


class ArtifactVersionAdded(Struct, frozen=True, kw_only=True):
    """Payload of the event `artifact_version_added` (5.2)."""

    artifact_id: str
    version: int
    name: str
    media_type: str
    size: int
