"""Consumer cursors and artifacts (10, 11.2)."""

from scuba import wire
from scuba.server.http.artifacts import VersionQuery
from scuba.server.http.call import ListQuery
from scuba.server.http.table.kinds import Bytes, Described, ListOf, made, one
from scuba.wire import Route

ANY = Bytes("*/*")

ARTIFACTS: dict[str, dict[str, Described]] = {
    Route.CURSORS: {
        "GET": Described(
            operation="cursors",
            summary="How far the readers of a thread have come (10).",
            query=ListQuery,
            answers=one(ListOf(wire.ConsumerCursor)),
            refusals="thread_not_found",
        )
    },
    Route.CURSOR: {
        "PUT": Described(
            operation="putCursor",
            summary="Move a cursor of the caller, never back; it answers where it stands (10).",
            body=(wire.CursorPosition,),
            answers=one(wire.CursorPosition),
            refusals="invalid_query thread_not_found future_cursor limit_reached",
        )
    },
    Route.ARTIFACTS: {
        "GET": Described(
            operation="artifacts",
            summary="The artifacts of a thread, oldest first (11.2).",
            query=ListQuery,
            answers=one(ListOf(wire.Artifact)),
            refusals="thread_not_found",
        ),
        "POST": Described(
            operation="createArtifact",
            summary="Make an artifact that has no version yet (11.2).",
            body=(wire.NewArtifact,),
            answers=made(wire.Artifact),
            refusals="forbidden thread_not_found thread_archived key_conflict limit_reached",
        ),
    },
    Route.ARTIFACT: {
        "GET": Described(
            operation="artifact",
            summary="An artifact with its versions; its ETag is for `If-Match` (11.2).",
            answers=one(wire.Artifact),
            refusals="artifact_not_found",
        )
    },
    Route.VERSIONS: {
        "POST": Described(
            operation="addVersion",
            summary="Make the body the next version of an artifact (11.2).",
            query=VersionQuery,
            headers=("Idempotency-Key", "If-Match", "Content-Digest"),
            body=(ANY,),
            answers=made(wire.ArtifactVersion),
            refusals="invalid_json forbidden not_your_run artifact_not_found run_not_found"
            " thread_archived key_conflict run_complete run_finished limit_reached"
            " version_conflict digest_mismatch",
        )
    },
    Route.CONTENT: {
        "GET": Described(
            operation="content",
            summary="The bytes of a version, or a range of them (11.2).",
            headers=("Range", "If-Range", "If-None-Match"),
            answers={200: (ANY,), 206: (ANY,), 304: ()},
            refusals="artifact_not_found range_not_satisfiable",
        )
    },
}
