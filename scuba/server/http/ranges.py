"""What a content answers to conditions and ranges (RFC 9110), and how it is named. Pure."""

import base64
import re
from urllib.parse import quote

from scuba.errors import Problem

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)
_DIGEST = re.compile(r"sha-256\s*=\s*:([A-Za-z0-9+/]{43}=):")
_VERSION = re.compile(r'"(\d{1,9})"')
_NOT_PLAIN = re.compile(r'[^ -~]|["\\%]')


def matches(header: str, etag: str) -> bool:
    """Return whether `If-None-Match` names this ETag; weak marks do not count against it."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return tags == ["*"] or etag in tags


def wanted_span(header: str | None, size: int) -> range | None:
    """Return the bytes that a `Range` asks for, None for all.

    What is no single range of bytes is passed over, as RFC 9110 allows. Raises Problem 416 for one
    that lies outside.
    """
    found = _RANGE.fullmatch(header.strip()) if header is not None else None
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        first, last = max(size - int(found[2]), 0), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
        if found[2] and int(found[2]) < first:
            return None
    if first > last:
        raise Problem(416, "range_not_satisfiable", f"there are {size} bytes", size=size)
    return range(first, last + 1)


def expected_version(header: str | None) -> int | None:
    """Return the version in `If-Match: "3"`. Raises Problem 400 for anything else."""
    if header is None:
        return None
    found = _VERSION.fullmatch(header.strip())
    if found is None:
        detail = 'If-Match must be the number of the latest version in quotes, like "3"'
        raise Problem(400, "invalid_query", detail)
    return int(found[1])


def expected_digest(header: str | None) -> bytes | None:
    """Return the SHA-256 in `Content-Digest: sha-256=:…:` (RFC 9530).

    Raises Problem 422 for a header without one: its sender believes that it is looked at.
    """
    if header is None:
        return None
    found = _DIGEST.search(header)
    if found is None:
        detail = "Content-Digest must hold sha-256=:<base64 of 32 bytes>:"
        raise Problem(422, "digest_mismatch", detail)
    return base64.b64decode(found[1])


def as_digest(digest: str) -> str:
    """Return a digest of ours, `sha256:…`, as a header field writes it."""
    raw = bytes.fromhex(digest.removeprefix("sha256:"))
    return f"sha-256=:{base64.b64encode(raw).decode()}:"


def attachment(name: str) -> str:
    """Return the `Content-Disposition` of a file to be saved, whatever letters are in its name."""
    plain = _NOT_PLAIN.sub("_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
