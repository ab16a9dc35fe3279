"""What leaves by HTTP: JSON that spells out what it says, and problems (13)."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scuba.errors import Problem
from scuba.listener import ConnectionGone
from scuba.server.spelling import spelled

logger = logging.getLogger(__name__)


class Streamed(Response):
    """An answer that leaves as it is made.

    When access or token end on the way, the connection is cut: nobody takes half for the whole.
    """

    def __init__(
        self, pieces: AsyncGenerator[bytes], status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(None, status, headers)
        if "content-length" not in {name.lower() for name in headers}:
            del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces. Raises ConnectionGone when the client, or its access, has gone."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        try:
            async with aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except Problem as error:
            logger.info("cut an answer short: %s", error)
            raise ConnectionGone(error.detail) from error
        await send({"type": "http.response.body", "body": b""})


def reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON answer."""
    content = msgspec.json.encode(spelled(value))
    return Response(content, status, headers, media_type="application/json")


def done() -> Response:
    """Return the answer that has nothing to add."""
    return Response(status_code=204)


def problem(error: Problem, request_id: str) -> Response:
    """Return a refusal as problem+json, with the headers its status asks for."""
    fields = {_camel(name): value for name, value in error.fields.items() if value is not None}
    wait = fields.pop("retryAfter", None)
    body = {
        "type": f"urn:bubble:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "requestId": request_id,
        **fields,
    }
    headers: dict[str, str] = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="bubble"'
    if error.status in (429, 503):
        headers["Retry-After"] = str(wait or 1)
    if error.status == 416:
        headers["Content-Range"] = f"bytes */{error.fields['size']}"
    content = msgspec.json.encode(body)
    return Response(content, error.status, headers, media_type="application/problem+json")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
