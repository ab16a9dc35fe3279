"""One HTTP call: sent once, answered within its deadline, the token never shown."""

import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import httpx
import msgspec
import trio

from actors.ports import Refused, Unavailable
from scuba import wire
from scuba.bubble.address import Address
from scuba.bubble.answers import decoded, failure
from scuba.bubble.causes import cause_of
from scuba.secret import Secret

T = TypeVar("T")

CONNECT_S = 5.0
CALL_S = 30.0
"""The whole of a call, from asking for a connection to the last byte."""
AT_ONCE = 16
"""Calls in flight. The rest queue here, fairly: the pool itself is slow with many of either."""
IDLE_S = 30.0
"""An unused connection is kept as long as this."""

_encode = msgspec.json.Encoder().encode


class Body(httpx.AsyncByteStream):
    """A request's body in one piece.

    That of httpx is an async generator, which a call that is cancelled while it sends leaves open.
    """

    def __init__(self, content: bytes) -> None:
        self._content: bytes | None = content

    def __aiter__(self) -> Self:
        """Return the one iterator: a call is sent once."""
        return self

    async def __anext__(self) -> bytes:
        """Return everything, then nothing."""
        content, self._content = self._content, None
        if content is None:
            raise StopAsyncIteration
        return content


class Calls:
    """Owns the connection pool; `async with` opens and closes it."""

    def __init__(
        self, address: Address, token: Secret, verify: Callable[[], ssl.SSLContext]
    ) -> None:
        self._base = address.base
        self._places = trio.CapacityLimiter(AT_ONCE)
        self._http = httpx.AsyncClient(
            headers={
                "Authorization": f"Bearer {token.reveal()}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            verify=verify() if address.secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=httpx.Timeout(CALL_S, connect=CONNECT_S),
            limits=httpx.Limits(
                max_connections=AT_ONCE,
                max_keepalive_connections=AT_ONCE,
                keepalive_expiry=IDLE_S,
            ),
            follow_redirects=False,
            trust_env=False,  # a proxy of the environment would be given the token
        )

    async def __aenter__(self) -> Self:
        """Open the connection pool."""
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close every connection."""
        await self._http.__aexit__(kind, error, traceback)

    async def call(
        self,
        method: str,
        route: str,
        decoder: "msgspec.json.Decoder[T]",
        *,
        query: dict[str, str] | None = None,
        body: wire.Struct | None = None,
    ) -> T:
        """Return what a good answer says; raises Unavailable or Refused."""
        return decoded(await self.send(method, route, query=query, body=body), decoder)

    async def send(
        self,
        method: str,
        route: str,
        *,
        query: dict[str, str] | None = None,
        body: wire.Struct | None = None,
    ) -> bytes:
        """Return a good answer as it came; raises Unavailable or Refused."""
        content = b"" if body is None else _encode(body)
        request = self._http.build_request(
            method,
            self._base + route,
            params=query,
            content=content,
            headers=None if body is None else {"Content-Type": "application/json"},
        )
        request.stream = Body(content)
        answer = await self._exchange(request)
        # Raised out here, so that no traceback leads to the frames below, which hold the token.
        if isinstance(answer, Refused | Unavailable):
            raise answer
        return answer

    async def _exchange(self, request: httpx.Request) -> bytes | Refused | Unavailable:
        asked = f"{request.method} {request.url.path}"
        try:
            with trio.fail_after(CALL_S):
                async with self._places:
                    response = await self._http.send(request)
        except trio.TooSlowError:
            return Unavailable(f"{asked}: no answer within {CALL_S:g} s")
        except httpx.HTTPError as error:
            return Unavailable(f"{asked}: {cause_of(error)}")
        if response.is_success:
            return response.content
        return failure(response.status_code, response.headers, response.content)
