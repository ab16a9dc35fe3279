"""One document by GET: over TLS or from this machine, small and soon, from that address only."""

import re

import httpcore
import msgspec
import trio

from scuba.causes import cause_of
from scuba.network import Body, Network, trusting_context
from scuba.server.config import is_safe_url

FETCH_S = 5.0
LARGEST_BYTES = 262_144

FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError)

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=\"?([0-9]{1,9})", re.IGNORECASE)
_NOT_KEPT = re.compile(r"(?:^|[\s,])no-(?:store|cache)", re.IGNORECASE)


class FetchFailed(Exception):
    """There is no such document now. The text says why, for the log."""


class Fetched(msgspec.Struct, frozen=True):
    """A document, and how long its server lets it be kept, if it says so."""

    body: bytes
    max_age_s: float | None = None


async def fetch(url: str) -> Fetched:
    """Return the document within `FETCH_S`. Raises FetchFailed; a redirect is a failure."""
    if not is_safe_url(url):
        raise FetchFailed(f"{url} is neither https nor of this machine")
    try:
        with trio.fail_after(FETCH_S):
            return await _get(url)
    except trio.TooSlowError:
        raise FetchFailed(f"{url}: no answer within {FETCH_S:g} s") from None
    except FAILURES as error:
        raise FetchFailed(f"{url}: {cause_of(error)}") from error


async def _get(url: str) -> Fetched:
    context = trusting_context() if url.startswith("https:") else None
    headers = [("Accept", "application/json"), ("Accept-Encoding", "identity")]
    async with (
        httpcore.AsyncConnectionPool(ssl_context=context, network_backend=Network()) as pool,
        pool.stream("GET", url, headers=headers, content=Body(b"")) as response,
    ):
        if response.status != 200:
            raise FetchFailed(f"{url}: status {response.status}")
        body = bytearray()
        with trio.CancelScope() as enough:  # leaving the loop would leave generators of httpcore
            async for piece in response.aiter_stream():
                body += piece
                if len(body) > LARGEST_BYTES:
                    enough.cancel()
        if len(body) > LARGEST_BYTES:
            raise FetchFailed(f"{url}: larger than {LARGEST_BYTES} bytes")
        return Fetched(bytes(body), max_age_s(_cache_control(response)))


def max_age_s(cache_control: str) -> float | None:
    """Return how long a document may be kept by its `Cache-Control`, None when it does not say."""
    if _NOT_KEPT.search(cache_control):
        return 0.0
    found = _MAX_AGE.search(cache_control)
    return None if found is None else float(found[1])


def _cache_control(response: httpcore.Response) -> str:
    found = [value for name, value in response.headers if name.lower() == b"cache-control"]
    return b", ".join(found).decode("latin-1")
