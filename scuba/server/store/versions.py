"""Versions of artifacts: numbered from 1 without gaps, and never changed (11.2).

A large content would hold up everybody else's commits, so its bytes are stored before, a piece a
write, under an id that means nothing until the version that names it is committed. Pieces of an
upload that came to nothing are swept.
"""

import msgspec

from scuba import wire
from scuba.errors import Problem
from scuba.server.store.artifacts import find_version, seen
from scuba.server.store.authority import Standing
from scuba.server.store.changes import Caller
from scuba.server.store.engine import Tx, Write
from scuba.server.store.filenames import check_media_type
from scuba.server.store.ids import KEY, RUN_ID, moment
from scuba.server.store.log import Fresh, write_events
from scuba.server.store.text import check_form

PIECE_BYTES = 524_288
"""As much of a content is one write, and is read at once."""
MOST_VERSIONS = 1_000
UPLOAD_MS = 3_600_000
"""An upload that has not ended after an hour never will: its server is gone."""


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a new version but for its content."""

    media_type: str | None = None
    """None: that of the artifact."""
    key: str | None = None
    if_match: int | None = None
    """The version that must be the latest; 0: there must be none yet."""
    run_id: str | None = None


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What came: `tail` is what no piece was stored of."""

    content_id: str
    stored_bytes: int
    """How much of it is in pieces already."""
    tail: bytes
    digest: bytes

    @property
    def size(self) -> int:
        """Return how many bytes it has."""
        return self.stored_bytes + len(self.tail)


def expect(tx: Tx, caller: Caller, artifact_id: str, asked: NewVersion) -> bool:
    """Refuse a version before its content is read. Returns whether its key is known already."""
    return _admit(tx, caller, artifact_id, asked)[2] is not None


def keep_piece(w: Write, caller: Caller, content_id: str, start: int, piece: bytes) -> None:
    """Store a piece that begins at byte `start` of a content to come."""
    if start == 0:
        _sweep(w)
        w.run(
            "INSERT INTO artifact_uploads (content_id, begun_at) VALUES (?, ?)",
            (content_id, w.now),
        )
    _insert_piece(w, content_id, start, piece)


def add(
    w: Write, caller: Caller, artifact_id: str, asked: NewVersion, content: Content
) -> tuple[bool, wire.ArtifactVersion]:
    """Make the next version and say so on the thread. Returns whether it is new, and the version.

    Raises Problem 409 `key_conflict`, 412 `version_conflict`, and as for an append (6.4).
    """
    artifact, at, kept = _admit(w, caller, artifact_id, asked)
    media_type = asked.media_type or artifact.media_type
    if kept is not None:
        same = kept.digest == f"sha256:{content.digest.hex()}" and kept.media_type == media_type
        if not same:
            detail = f"key {asked.key} was used for version {kept.version} with other content"
            raise Problem(409, "key_conflict", detail, version=kept.version)
        return False, kept
    made = wire.ArtifactVersion(
        version=artifact.latest_version + 1,
        size=content.size,
        digest=f"sha256:{content.digest.hex()}",
        media_type=media_type,
        created_by=caller.id,
        created_at=w.now,
    )
    _insert(w, artifact_id, made, asked.key, content)
    _say(w, at, caller, artifact, made, asked.run_id)
    return True, made


def drop(w: Write, content_id: str) -> None:
    """Forget an upload and its pieces, unless a version has taken them over; again is well."""
    if w.run("DELETE FROM artifact_uploads WHERE content_id = ?", (content_id,)):
        w.run("DELETE FROM artifact_pieces WHERE content_id = ?", (content_id,))


def version(
    tx: Tx, caller: Caller, artifact_id: str, number: int
) -> tuple[str, wire.ArtifactVersion]:
    """Return the artifact's name and one of its versions. Raises Problem 404."""
    artifact, _ = seen(tx, caller, artifact_id)
    found = find_version(tx, artifact_id, "version = ?", min(number, wire.MAX_INTEGER))
    if found is None:
        raise Problem(404, "not_found", f"no version {number} of this artifact")
    return artifact.name, found


def piece(tx: Tx, caller: Caller, artifact_id: str, number: int, start: int) -> bytes:
    """Return a content from byte `start` to the end of the piece that has it; empty at the end."""
    seen(tx, caller, artifact_id)
    row = tx.one(
        "SELECT p.start, p.piece FROM artifact_versions v JOIN artifact_pieces p"
        " ON p.content_id = v.content_id WHERE v.artifact_id = ? AND v.version = ?"
        " AND p.start <= ? ORDER BY p.start DESC LIMIT 1",
        (artifact_id, number, start),
    )
    return b"" if row is None else bytes(row[1])[start - row[0] :]


# --- the rules ---------------------------------------------------------------------------------


def _admit(
    tx: Tx, caller: Caller, artifact_id: str, asked: NewVersion
) -> tuple[wire.Artifact, Standing, wire.ArtifactVersion | None]:
    """Return artifact and standing, and the version that was made under the same key before.

    A repeat is looked for before every rule but the grant, as with events (6.2).
    """
    artifact, at = seen(tx, caller, artifact_id)
    if asked.media_type is not None:
        check_media_type(asked.media_type)
    if asked.key is not None:
        check_form("Idempotency-Key", asked.key, KEY, "invalid_query")
        where = "created_by = ? AND key = ?"
        kept = find_version(tx, artifact_id, where, caller.id, asked.key)
        if kept is not None:
            return artifact, at, kept
    at.require("write artifacts")
    at.require_open()
    latest = artifact.latest_version
    if asked.if_match is not None and asked.if_match != latest:
        detail = f"the latest version is {latest}"
        raise Problem(412, "version_conflict", detail, latest_version=latest)
    if latest >= MOST_VERSIONS:
        raise Problem(409, "limit_reached", f"an artifact has at most {MOST_VERSIONS} versions")
    if asked.run_id is not None:
        _check_run(tx, caller, artifact.thread_id, asked.run_id)
    return artifact, at, None


def _check_run(tx: Tx, caller: Caller, thread_id: str, run_id: str) -> None:
    """A version may be told as part of an open run of its author (5.2, 6.4)."""
    check_form("runId", run_id, RUN_ID, "invalid_query")
    row = tx.one(
        "SELECT principal_id, status FROM runs WHERE thread_id = ? AND run_id = ?",
        (thread_id, run_id),
    )
    if row is None:
        raise Problem(404, "run_not_found", f"no run {run_id} on this thread")
    if row[0] != caller.id:
        raise Problem(403, "not_your_run", f"the run {run_id} is another principal's")
    if row[1] == "bare":
        raise Problem(409, "run_complete", f"{run_id} is a bare message, complete as it is")
    if row[1] != "open":
        raise Problem(409, "run_finished", f"the run {run_id} is finished")


def _insert(
    w: Write, artifact_id: str, made: wire.ArtifactVersion, key: str | None, content: Content
) -> None:
    ended = w.run("DELETE FROM artifact_uploads WHERE content_id = ?", (content.content_id,))
    if content.stored_bytes and not ended:
        raise Problem(503, "unavailable", "the upload took too long; send it again")
    if content.tail:
        _insert_piece(w, content.content_id, content.stored_bytes, content.tail)
    w.run(
        "UPDATE artifacts SET latest_version = ? WHERE artifact_id = ?",
        (made.version, artifact_id),
    )
    w.run(
        "INSERT INTO artifact_versions (artifact_id, version, media_type, size, digest,"
        " created_by, created_at, key, content_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            artifact_id,
            made.version,
            made.media_type,
            made.size,
            content.digest,
            made.created_by,
            made.created_at,
            key,
            content.content_id,
        ),
    )


def _sweep(w: Write) -> None:
    """Forget the uploads whose server went away in the middle."""
    before = moment(w.now_ms - UPLOAD_MS)
    for (content_id,) in w.all(
        "SELECT content_id FROM artifact_uploads WHERE begun_at < ?", (before,)
    ):
        drop(w, content_id)


def _insert_piece(w: Write, content_id: str, start: int, piece: bytes) -> None:
    w.run(
        "INSERT INTO artifact_pieces (content_id, start, piece) VALUES (?, ?, ?)",
        (content_id, start, piece),
    )


def _say(
    w: Write,
    at: Standing,
    caller: Caller,
    artifact: wire.Artifact,
    made: wire.ArtifactVersion,
    run_id: str | None,
) -> None:
    told = wire.ArtifactVersionAdded(
        artifact_id=artifact.artifact_id,
        version=made.version,
        name=artifact.name,
        media_type=made.media_type,
        size=made.size,
    )
    event = Fresh(type="artifact_version_added", run_id=run_id, payload=msgspec.json.encode(told))
    write_events(w, at.thread.thread_id, caller.id, [event])
