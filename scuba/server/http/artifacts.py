"""Artifacts: named things on a thread, in versions that never change (11.2)."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any

from starlette.responses import Response

from scuba import wire
from scuba.errors import Problem
from scuba.server.http.call import Call, ListQuery, Query
from scuba.server.http.ranges import (
    as_digest,
    attachment,
    expected_digest,
    expected_version,
    matches,
    wanted_span,
)
from scuba.server.http.replies import Streamed, reply
from scuba.server.http.uploads import take_version
from scuba.server.store import Caller
from scuba.server.store.versions import NewVersion

LARGE_BYTES = 1_048_576
"""A body that may be larger than this needs a slot."""


class VersionQuery(Query, frozen=True, kw_only=True):
    """Of `POST …/versions`: the run it belongs to, if one (5.2)."""

    run_id: str | None = None


async def create_artifact(call: Call, caller: Caller) -> Response:
    """Make an artifact that has no version yet; the same key, the same artifact."""
    wanted = await call.body(wire.NewArtifact)
    new, made = await call.store.artifacts.create(caller, call.id("thread_id"), wanted)
    return reply(made, 201 if new else 200)


async def artifacts(call: Call, caller: Caller) -> Response:
    """List the artifacts of a thread, oldest first."""
    query = call.query(ListQuery)

    async def fetch(limit: int, after: str | None) -> tuple[list[Any], str | None]:
        thread_id = call.id("thread_id")
        return await call.store.artifacts.listing(caller, thread_id, limit=limit, after=after)

    return await call.listing(caller, query, fetch)


async def artifact(call: Call, caller: Caller) -> Response:
    """Show an artifact with its versions; its ETag is what `If-Match` asks for."""
    found = await call.store.artifacts.whole(caller, call.id("artifact_id"))
    return reply(found, headers={"ETag": f'"{found.latest_version}"'})


async def add_version(call: Call, caller: Caller) -> Response:
    """Make the body the next version."""
    asked = NewVersion(
        media_type=call.header("content-type"),
        key=call.header("idempotency-key"),
        if_match=expected_version(call.header("if-match")),
        run_id=call.query(VersionQuery).run_id,
    )
    expected = expected_digest(call.header("content-digest"))
    if call.header("content-encoding") not in (None, "identity"):
        raise Problem(415, "unsupported_media_type", "Content-Encoding is not understood")
    limit = call.parts.config.limits.artifact_bytes
    async with AsyncExitStack() as stack:
        if call.may_exceed(LARGE_BYTES):
            await stack.enter_async_context(call.parts.uploads.slot(caller.id))
        body = await stack.enter_async_context(aclosing(call.pieces(limit, "body_too_large")))
        shelf, artifact_id = call.store.artifacts, call.id("artifact_id")
        new, made = await take_version(shelf, caller, artifact_id, asked, body, expected)
    return reply(made, 201 if new else 200)


async def content(call: Call, caller: Caller) -> Response:
    """Give the bytes of a version, or a range of them, as something to be saved."""
    artifact_id, number = call.id("artifact_id"), call.number("version")
    name, version = await call.store.artifacts.version(caller, artifact_id, number)
    headers = _headers(name, version)
    condition = call.header("if-none-match")
    if condition is not None and matches(condition, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    span = None
    if call.method == "GET" and call.header("if-range") in (None, headers["ETag"]):
        span = wanted_span(call.header("range"), version.size)
    whole = range(version.size) if span is None else span
    headers |= {"Content-Type": version.media_type, "Content-Length": str(len(whole))}
    if call.method == "HEAD":
        return Response(headers=headers)
    if span is None:
        headers["Content-Digest"] = headers["Repr-Digest"]
    else:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{version.size}"
    pieces = _pieces(call, caller, artifact_id, version.version, whole)
    return Streamed(pieces, 200 if span is None else 206, headers)


def _headers(name: str, version: wire.ArtifactVersion) -> dict[str, str]:
    """Return what keeps a browser from showing a content as a page of this server."""
    return {
        "ETag": f'"{version.digest}"',
        "Repr-Digest": as_digest(version.digest),
        "Accept-Ranges": "bytes",
        "Content-Disposition": attachment(name),
        "Content-Security-Policy": "sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
    }


async def _pieces(
    call: Call, caller: Caller, artifact_id: str, version: int, span: range
) -> AsyncGenerator[bytes]:
    """Yield the bytes of a span. Raises Problem when access or token end on the way."""
    start = span.start
    while start < span.stop:
        piece = await call.store.artifacts.piece(caller, artifact_id, version, start)
        if not piece:
            raise Problem(500, "internal", f"the content of {artifact_id} ends at {start}")
        yield piece[: span.stop - start]
        start += len(piece)
        await call.check_login()
