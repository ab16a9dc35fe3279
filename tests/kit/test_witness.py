"""The witness notices what a server says that its description does not."""

import json
from typing import Any

import pytest

from scuba.listener import Message, Receive, Scope, Send
from tests.kit.witness import Witness

INFO = {"name": "bubble", "server": "s", "protocol": {}, "logEpoch": "e", "authDrivers": []}


async def said(path: str, status: int, media: str, body: object, method: str = "GET") -> list[str]:
    """Return what a witness has to say about one answer."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", media.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    async def nothing(message: Message | None = None) -> Any:  # noqa: ANN401  # receives and sends
        return {}

    witness = Witness()
    scope = {"type": "http", "method": method, "path": path}
    await witness.wrap(app)(scope, nothing, nothing)
    return witness.complaints


@pytest.mark.parametrize("path", ["/v1/info", "/below/v1/info"])
async def test_what_is_as_described_passes(path: str) -> None:
    assert await said(path, 200, "application/json", INFO) == []


@pytest.mark.parametrize(
    ("path", "status", "media", "body", "complaint"),
    [
        ("/v1/info", 200, "application/json", {**INFO, "name": 7}, "$.name"),
        ("/v1/info", 200, "application/json", {"name": "bubble"}, "required"),
        ("/v1/info", 418, "application/json", {}, "not described"),
        ("/v1/info", 200, "text/html", {}, "text/html"),
        ("/v1/threads/t1", 409, "application/problem+json", {}, "not described"),
    ],
)
async def test_what_is_not_is_told(
    path: str, status: int, media: str, body: object, complaint: str
) -> None:
    told = await said(path, status, media, body)

    assert len(told) == 1
    assert complaint in told[0]


async def test_frames_are_watched_too() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.send", "text": '{"type":"server.pong","ref":"r"}'})
        await send({"type": "websocket.send", "text": '{"type":"server.pong","ref":7}'})

    async def nothing(message: Message | None = None) -> Any:  # noqa: ANN401  # receives and sends
        return {}

    witness = Witness()
    await witness.wrap(app)({"type": "websocket", "path": "/v1/ws"}, nothing, nothing)

    assert len(witness.complaints) == 1
    assert "$.ref" in witness.complaints[0]
