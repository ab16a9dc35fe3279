"""Whatever bytes come, in whatever pieces: a connection ends, quietly, and nothing escapes."""

import logging
from collections.abc import Sequence

import pytest
import trio
import wsproto.events as ws
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair
from wsproto.connection import Connection, ConnectionType

from scuba.listener import ListenerConfig, Receive, Scope, Send
from scuba.listener.frames import Broken, Frames, Heard
from scuba.listener.heads import Ends
from scuba.listener.http import HttpConnection
from tests.scuba.listener.test_websocket import UPGRADE

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SHREDS = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /x HTTP/1.1\r\n",
        b"HEAD http://x HTTP/1.0\r\n",
        b"OPTIONS * HTTP/1.1\r\n",
        b"CONNECT x:1 HTTP/1.1\r\n",
        b"Host: x\r\n",
        b"Content-Length: 3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
        b"Upgrade: h2c\r\n",
        b"Sec-WebSocket-Version: 13\r\n",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"\x81\x80\x00\x00\x00\x00",
        b"\r\n",
    ]
)
BYTES = st.lists(SHREDS | st.binary(max_size=8), max_size=12)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read everything, answer with as much as fits, echo on a socket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})
        return
    while (message := await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"ok"})


def served(pieces: Sequence[bytes], config: ListenerConfig, *, upgrade: bool = False) -> bytes:
    """Send the pieces to a connection, leave, and return what came back."""

    async def main() -> bytes:
        client, server = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpConnection(app, server, config, Ends()).run)
            if upgrade:
                await client.send_all(UPGRADE)
                assert (await client.receive_some()).startswith(b"HTTP/1.1 101 ")
            for piece in pieces:
                if piece:
                    await client.send_all(piece)
                    await trio.lowlevel.checkpoint()
            await client.send_eof()
            return b"".join([bytes(data) async for data in client])

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@QUICK
@given(BYTES)
def test_no_bytes_crash_a_connection(caplog: pytest.LogCaptureFixture, pieces: list[bytes]) -> None:
    answers = served(pieces, ListenerConfig(header_bytes=400, body_bytes=50, ws_frame_bytes=20))

    assert not answers or answers.startswith(b"HTTP/1.1 ")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@QUICK
@given(BYTES)
def test_no_bytes_crash_a_websocket(caplog: pytest.LogCaptureFixture, pieces: list[bytes]) -> None:
    answers = served(pieces, ListenerConfig(ws_frame_bytes=20), upgrade=True)

    assert not answers.startswith(b"HTTP")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


MESSAGES = st.lists(st.text(max_size=10) | st.binary(max_size=10), max_size=6)


@QUICK
@given(MESSAGES, st.data())
def test_messages_are_whole_however_they_are_cut(
    messages: list[str | bytes], data: st.DataObject
) -> None:
    client = Connection(ConnectionType.CLIENT)
    wire = b""
    for message in messages:
        cut = data.draw(st.integers(0, len(message)))
        make = ws.TextMessage if isinstance(message, str) else ws.BytesMessage
        wire += client.send(make(data=message[:cut], message_finished=False))  # type: ignore[arg-type]  # of its kind
        wire += client.send(ws.Ping())
        wire += client.send(make(data=message[cut:]))  # type: ignore[arg-type]  # of its kind
    frames, heard = Frames(1000), list[Heard]()
    while wire:
        size = data.draw(st.integers(1, len(wire)))
        heard += frames.hear(wire[:size])
        wire = wire[size:]

    assert [item for item in heard if isinstance(item, str | bytes)] == messages
    assert heard.count(ws.Ping()) == len(messages)


@QUICK
@given(st.text(max_size=30), st.integers(0, 60))
def test_a_message_is_measured_in_bytes(message: str, limit_bytes: int) -> None:
    wire = Connection(ConnectionType.CLIENT).send(ws.TextMessage(data=message))

    [heard] = Frames(limit_bytes).hear(wire)
    assert isinstance(heard, Broken) == (len(message.encode()) > limit_bytes)
