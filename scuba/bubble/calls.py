"""One HTTP call: sent once, answered within its deadline, the token never shown."""

import ssl
from http import HTTPStatus
from typing import Self, TypeVar
from urllib.parse import urlencode

import httpcore
import msgspec
import trio

from actors.ports import Refused, Unavailable
from scuba import wire
from scuba.bubble.address import Address
from scuba.bubble.answers import decoded, failure
from scuba.bubble.credential import Credential
from scuba.causes import cause_of
from scuba.errors import IdentityRefused
from scuba.network import Body, Network
from scuba.secret import Secret

T = TypeVar("T")

CONNECT_S = 5.0
CALL_S = 30.0
"""The whole of a call, from asking for a connection to the last byte."""
AT_ONCE = 16
"""Calls in flight. The rest queue here, fairly: the pool itself is slow with many of either."""
IDLE_S = 30.0
"""An unused connection is kept as long as this."""

FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)

_WHOAMI = msgspec.json.Decoder(wire.WhoAmI)
_encode = msgspec.json.Encoder().encode


class Calls:
    """Owns the connection pool; `async with` closes it. Knows no proxy and follows no redirect."""

    def __init__(
        self, address: Address, credential: Credential, context: ssl.SSLContext | None
    ) -> None:
        self._address, self._credential = address, credential
        self._places = trio.CapacityLimiter(AT_ONCE)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=AT_ONCE,
            max_keepalive_connections=AT_ONCE,
            keepalive_expiry=IDLE_S,
            network_backend=Network(),
        )

    async def __aenter__(self) -> Self:
        """Return the calls; connections are made when they are needed."""
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self._pool.aclose()

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
        target = self._address.prefix + route + (f"?{urlencode(query)}" if query else "")
        content = b"" if body is None else _encode(body)
        token = self._credential.token
        answer = await self._exchange(method, target, content, token)
        if _is_unauthenticated(answer) and await self._may_try_again(token):
            answer = await self._exchange(method, target, content, self._credential.token)
        # Raised out here, so that no traceback leads to the frames below, which hold the token.
        if isinstance(answer, Refused | Unavailable):
            raise answer
        return answer

    async def fetch(self, route: str, most_bytes: int) -> bytes:
        """Return a content; raises Unavailable, or Refused, `too_big` when it is larger."""
        target = self._address.prefix + route
        answer = await self._exchange("GET", target, b"", self._credential.token, most_bytes)
        if isinstance(answer, Refused | Unavailable):
            raise answer
        return answer

    async def renew(self, old: Secret) -> bool:
        """Return whether there is another token than `old` now; see `Credential.renew`."""
        return await self._credential.renew(old, self._owner)

    async def _may_try_again(self, refused: Secret) -> bool:
        try:
            return await self.renew(refused)
        except (IdentityRefused, Unavailable):
            return False  # the socket meets the same, and says so

    async def _owner(self, token: Secret) -> str:
        """Return whose token it is. Raises Unavailable or Refused."""
        target = self._address.prefix + wire.Route.WHOAMI
        answer = await self._exchange("GET", target, b"", token)
        if isinstance(answer, Refused | Unavailable):
            raise answer
        return decoded(answer, _WHOAMI).principal.principal_id

    async def _exchange(
        self,
        method: str,
        target: str,
        content: bytes,
        token: Secret,
        most_bytes: int | None = None,
    ) -> bytes | Refused | Unavailable:
        asked = f"{method} {target.partition('?')[0]}"
        try:
            with trio.fail_after(CALL_S):
                async with (
                    self._places,
                    self._pool.stream(
                        method,
                        self._address.at(target),
                        headers=self._headers(content, token),
                        content=Body(content),
                        extensions={"timeout": {"connect": CONNECT_S}},
                    ) as response,
                ):
                    body = await _read(response, most_bytes)
        except trio.TooSlowError:
            return Unavailable(f"{asked}: no answer within {CALL_S:g} s")
        except FAILURES as error:
            return Unavailable(f"{asked}: {cause_of(error)}")
        if body is None:
            return Refused("too_big", f"the answer has more than {most_bytes} bytes", 413)
        if 200 <= response.status < 300:
            return body
        return failure(response.status, _by_name(response.headers), body)

    def _headers(self, content: bytes, token: Secret) -> list[tuple[bytes, bytes]]:
        headers = [
            (b"Host", self._address.authority.encode()),
            (b"Authorization", f"Bearer {token.reveal()}".encode()),
            (b"Accept", b"application/json"),
            (b"Content-Length", str(len(content)).encode()),
        ]
        return [*headers, (b"Content-Type", b"application/json")] if content else headers


async def _read(response: httpcore.Response, most_bytes: int | None) -> bytes | None:
    """Return the body; None when a good answer has more bytes, or does not say how many."""
    if most_bytes is not None and 200 <= response.status < 300:
        length = _by_name(response.headers).get("content-length", "")
        # An answer that goes on beyond the length it told is an error of the protocol.
        if not length.isdecimal() or int(length) > most_bytes:
            return None
    return await response.aread()


def _is_unauthenticated(answer: bytes | Refused | Unavailable) -> bool:
    return isinstance(answer, Refused) and answer.status == HTTPStatus.UNAUTHORIZED


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
