"""Artifacts: named things on a thread, made once for a key, seen by who sees the thread (11.2)."""

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.authority import Standing, standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Row, Tx, Write
from scuba.server.store.filenames import check_media_type, check_name
from scuba.server.store.ids import KEY, ordered_id
from scuba.server.store.listing import check_limit, cut, place
from scuba.server.store.text import check_form

_COLUMNS = "artifact_id, thread_id, name, media_type, latest_version, created_by, created_at"
_VERSION_COLUMNS = "version, size, digest, media_type, created_by, created_at"


def create(
    w: Write, caller: Caller, thread_id: str, body: wire.NewArtifact
) -> tuple[bool, wire.Artifact]:
    """Make an artifact without a version. Returns whether it is new, and the artifact.

    Raises Problem 409 `key_conflict` when the key was used with another name or media type.
    """
    at = standing(w, caller, thread_id)
    check_name(body.name)
    check_media_type(body.media_type)
    old = _find_made(w, caller, thread_id, body)
    if old is not None:
        return False, old
    at.require("write artifacts")
    at.require_open()
    made = wire.Artifact(
        artifact_id=ordered_id("art_", w.now_ms),
        thread_id=thread_id,
        name=body.name,
        media_type=body.media_type,
        latest_version=0,
        created_by=caller.id,
        created_at=w.now,
    )
    w.run(
        f"INSERT INTO artifacts ({_COLUMNS}, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*msgspec.structs.astuple(made)[:7], body.key),
    )
    return True, made


def listing(
    tx: Tx, caller: Caller, thread_id: str, *, limit: int, after: str | None
) -> tuple[list[wire.Artifact], str | None]:
    """Return the artifacts of a thread, oldest first, and where the next page begins."""
    standing(tx, caller, thread_id)
    start = place(after, 1)
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM artifacts WHERE thread_id = ? AND artifact_id > ?"
        " ORDER BY artifact_id LIMIT ?",
        (thread_id, "" if start is None else start[0], check_limit(limit) + 1),
    )
    page, on = cut([to_artifact(row) for row in rows], limit, lambda found: (found.artifact_id,))
    return list(page), on


def whole(tx: Tx, caller: Caller, artifact_id: str) -> wire.Artifact:
    """Return an artifact with all its versions, oldest first."""
    artifact, _ = seen(tx, caller, artifact_id)
    rows = tx.all(
        f"SELECT {_VERSION_COLUMNS} FROM artifact_versions WHERE artifact_id = ? ORDER BY version",
        (artifact_id,),
    )
    return msgspec.structs.replace(artifact, versions=[to_version(row) for row in rows])


def seen(tx: Tx, caller: Caller, artifact_id: str) -> tuple[wire.Artifact, Standing]:
    """Return an artifact of a thread that the caller reads, and how the caller stands there.

    Raises Problem 404 `artifact_not_found` alike for unknown and unseen (3.6).
    """
    row = tx.one(f"SELECT {_COLUMNS} FROM artifacts WHERE artifact_id = ?", (artifact_id,))
    if row is None:
        raise artifact_not_found()
    artifact = to_artifact(row)
    try:
        return artifact, standing(tx, caller, artifact.thread_id)
    except Problem as problem:
        if problem.status != 404:
            raise
        raise artifact_not_found() from None


def artifact_not_found() -> Problem:
    """Return what is said of an artifact that does not exist, or not for the caller."""
    return Problem(404, "artifact_not_found", "no such artifact")


def to_artifact(row: Row) -> wire.Artifact:
    """Return an artifact as it was read."""
    artifact_id, thread_id, name, media_type, latest_version, created_by, created_at = row
    return wire.Artifact(
        artifact_id=artifact_id,
        thread_id=thread_id,
        name=name,
        media_type=media_type,
        latest_version=latest_version,
        created_by=created_by,
        created_at=created_at,
    )


def to_version(row: Row) -> wire.ArtifactVersion:
    """Return a version as it was read."""
    version, size, digest, media_type, created_by, created_at = row
    return wire.ArtifactVersion(
        version=version,
        size=size,
        digest=f"sha256:{bytes(digest).hex()}",
        media_type=media_type,
        created_by=created_by,
        created_at=created_at,
    )


def find_version(
    tx: Tx, artifact_id: str, where: str, *args: object
) -> wire.ArtifactVersion | None:
    """Return the version of an artifact for which `where` holds, whoever asks."""
    row = tx.one(
        f"SELECT {_VERSION_COLUMNS} FROM artifact_versions WHERE artifact_id = ? AND {where}",
        (artifact_id, *args),
    )
    return None if row is None else to_version(row)


def _find_made(
    tx: Tx, caller: Caller, thread_id: str, body: wire.NewArtifact
) -> wire.Artifact | None:
    if body.key is None:
        return None
    check_form("key", body.key, KEY)
    row = tx.one(
        f"SELECT {_COLUMNS} FROM artifacts WHERE thread_id = ? AND created_by = ? AND key = ?",
        (thread_id, caller.id, body.key),
    )
    old = None if row is None else to_artifact(row)
    if old is not None and (old.name, old.media_type) != (body.name, body.media_type):
        raise Problem(409, "key_conflict", f"key {body.key} was used for another artifact")
    return old
