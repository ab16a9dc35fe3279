"""One WebSocket: what passes between app and peer, and how it ends, whoever ends it."""

import logging

import msgspec
import pytest
import trio
import wsproto.events as ws
from trio.testing import MockClock, wait_all_tasks_blocked
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    wrap_client_stream,
)
from wsproto.connection import Connection, ConnectionType

from scuba.listener import (
    ConnectionGone,
    ListenerConfig,
    Message,
    Receive,
    Scope,
    Send,
    text_frame,
)
from tests.kit.listening import PLAIN, Client, MemoryStream, connect

ACCEPT: Message = {"type": "websocket.accept"}
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Chat:
    """An app that accepts, keeps what it receives, and echoes it; `answers` come first."""

    def __init__(self, *answers: Message, end: Exception | None = None) -> None:
        self.received: list[Message] = []
        self._answers, self._end = answers, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send(ACCEPT)
        for answer in self._answers:
            await send(answer)
        if self._end is not None:
            raise self._end
        while True:
            message = await receive()
            self.received.append(message)
            if message["type"] == "websocket.disconnect":
                return
            if message["type"] == "websocket.receive":
                await send({**message, "type": "websocket.send"})


async def dial(
    nursery: trio.Nursery, app: object, config: ListenerConfig = PLAIN, **options: object
) -> WebSocketConnection:
    stream = connect(nursery, app, config)  # type: ignore[arg-type]  # any of the apps below
    return await wrap_client_stream(nursery, stream, "x", "/ws", **options)  # type: ignore[arg-type]  # passed on


class Peer:
    """A peer by hand, for what a good client would not do."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.protocol = Connection(ConnectionType.CLIENT)

    async def upgrade(self) -> None:
        await self.stream.send_all(UPGRADE)
        assert (await self.stream.receive_some()).startswith(b"HTTP/1.1 101 ")

    async def say(self, event: ws.Event) -> None:
        await self.stream.send_all(self.protocol.send(event))

    async def hear(self) -> list[ws.Event]:
        data = await self.stream.receive_some()
        self.protocol.receive_data(bytes(data) or None)
        return list(self.protocol.events())


async def peer(nursery: trio.Nursery, app: object, config: ListenerConfig = PLAIN) -> Peer:
    hand = Peer(connect(nursery, app, config))  # type: ignore[arg-type]  # any of the apps below
    await hand.upgrade()
    return hand


# --- the handshake --------------------------------------------------------------------------------


async def test_the_app_chooses_subprotocol_and_headers(nursery: trio.Nursery) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await send({**ACCEPT, "subprotocol": "b", "headers": [(b"x-name", b"value")]})
        await receive()
        await receive()

    socket = await dial(nursery, app, subprotocols=["a", "b"], extra_headers=[(b"who", b"me")])

    assert socket.subprotocol == "b"
    assert (b"x-name", b"value") in socket.handshake_headers
    assert seen[0]["type"] == "websocket"
    assert seen[0]["subprotocols"] == ["a", "b"]
    assert seen[0]["path"] == "/ws"
    assert (b"who", b"me") in seen[0]["headers"]
    assert "scuba.websocket.ping" in seen[0]["extensions"]


async def test_a_close_before_the_accept_is_a_403(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.close", "code": 4401})

    answer = await Client(connect(nursery, app)).ask(UPGRADE)

    assert answer.status == 403
    assert msgspec.json.decode(answer.body)["code"] == "forbidden"


async def test_the_app_may_refuse_with_an_answer_of_its_own(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert "websocket.http.response" in scope["extensions"]
        headers = [(b"content-type", b"text/plain"), (b"retry-after", b"30")]
        await send({"type": "websocket.http.response.start", "status": 429, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"too many"})

    client = Client(connect(nursery, app))
    answer = await client.ask(UPGRADE)

    assert (answer.status, answer.body) == (429, b"too many")
    assert answer.headers["retry-after"] == "30"
    assert await client.stream.receive_some() == b""


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"Version: 13", b"Version: 12", 426),
        (b"Sec-WebSocket-Version: 13\r\n", b"", 400),
        (b"Connection: Upgrade", b"Connection: close", 400),
        (b"AAAAAA==", b"", 400),
        (b"Sec-WebSocket-Key: ", b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Key: ", 400),
        (b"GET", b"POST", 400),
        (b"Host: x", b"Host: x\r\nContent-Length: 1", 400),
    ],
)
async def test_a_bad_handshake_is_told_what_is_wrong(
    nursery: trio.Nursery, old: bytes, new: bytes, status: int
) -> None:
    chat = Chat()
    client = Client(connect(nursery, chat))

    answer = await client.ask(UPGRADE.replace(old, new))

    assert answer.status == status
    assert msgspec.json.decode(answer.body)["status"] == status
    assert ("sec-websocket-version" in answer.headers) == (status == 426)
    assert chat.received == []


async def test_a_crash_before_the_accept_is_a_500(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("not today")

    answer = await Client(connect(nursery, app)).ask(UPGRADE)

    assert answer.status == 500
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


async def test_no_decision_is_a_500(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    assert (await Client(connect(nursery, app)).ask(UPGRADE)).status == 500


@pytest.mark.parametrize("kind", ["websocket.send", "websocket.ping", "http.response.start"])
async def test_a_word_before_the_accept_is_a_crash(nursery: trio.Nursery, kind: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": kind, "text": "x"})

    assert (await Client(connect(nursery, app)).ask(UPGRADE)).status == 500


async def test_a_second_accept_is_a_crash(nursery: trio.Nursery) -> None:
    socket = await dial(nursery, Chat(ACCEPT))

    with pytest.raises(ConnectionClosed) as caught:
        await socket.get_message()
    assert caught.value.reason is not None
    assert caught.value.reason.code == 1011


async def test_what_comes_with_the_handshake_waits_for_the_accept(nursery: trio.Nursery) -> None:
    hand = Peer(connect(nursery, Chat()))
    await hand.stream.send_all(UPGRADE + hand.protocol.send(ws.TextMessage(data="early")))
    received = b""
    while not received.endswith(b"early"):
        received += await hand.stream.receive_some()

    assert received.startswith(b"HTTP/1.1 101 ")


async def test_an_app_that_thinks_hears_that_the_peer_left(nursery: trio.Nursery) -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([await receive(), await receive()])

    stream = connect(nursery, app)
    await stream.send_all(UPGRADE)
    await stream.aclose()
    await wait_all_tasks_blocked()

    assert [message["type"] for message in heard] == ["websocket.connect", "websocket.disconnect"]


# --- messages -------------------------------------------------------------------------------------


async def test_text_and_bytes_pass_both_ways(nursery: trio.Nursery) -> None:
    socket = await dial(nursery, Chat())

    for message in ("héllo", b"\x00\xff", "", b""):
        await socket.send_message(message)
        assert await socket.get_message() == message


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 524_288])
async def test_a_frame_made_once_arrives_as_its_text(nursery: trio.Nursery, size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    frame = text_frame(text.encode())
    app = Chat(*[{"type": "websocket.send", "frame": frame}] * 2)
    socket = await dial(nursery, app, max_message_size=1_000_000)

    assert [await socket.get_message() for _ in range(2)] == [text, text]


async def test_a_message_in_pieces_arrives_whole(nursery: trio.Nursery) -> None:
    chat = Chat()
    hand = await peer(nursery, chat)
    await hand.say(ws.TextMessage(data="one ", message_finished=False))
    await hand.say(ws.Ping(payload=b"between"))
    await hand.say(ws.TextMessage(data="two", message_finished=True))

    assert await hand.hear() == [ws.Pong(payload=b"between")]
    assert await hand.hear() == [ws.TextMessage(data="one two")]


async def test_each_message_is_one_write(nursery: trio.Nursery) -> None:
    sends: list[Message] = [{"type": "websocket.send", "text": c * 1000} for c in "abc"]
    hand = await peer(nursery, Chat())
    heard = [await _echoed(hand, message["text"]) for message in sends]

    assert heard == [[ws.TextMessage(data=message["text"])] for message in sends]


async def _echoed(hand: Peer, text: str) -> list[ws.Event]:
    await hand.say(ws.TextMessage(data=text))
    return await hand.hear()


async def test_a_message_too_big_closes_1009(nursery: trio.Nursery) -> None:
    chat = Chat()
    socket = await dial(nursery, chat, ListenerConfig(ws_frame_bytes=10))
    await socket.send_message("é" * 5)
    assert await socket.get_message() == "é" * 5
    await socket.send_message("é" * 6)

    with pytest.raises(ConnectionClosed) as caught:
        await socket.get_message()
    assert caught.value.reason is not None
    assert caught.value.reason.code == 1009
    await wait_all_tasks_blocked()
    assert chat.received[-1]["code"] == 1009


async def test_a_message_too_big_in_pieces_is_not_collected(nursery: trio.Nursery) -> None:
    chat = Chat()
    hand = await peer(nursery, chat, ListenerConfig(ws_frame_bytes=10))
    for _ in range(3):
        await hand.say(ws.BytesMessage(data=b"1234", message_finished=False))

    [close] = await hand.hear()
    assert isinstance(close, ws.CloseConnection)
    assert close.code == 1009
    await wait_all_tasks_blocked()
    assert [message["type"] for message in chat.received] == ["websocket.disconnect"]


# --- pings ----------------------------------------------------------------------------------------


async def test_a_ping_is_answered_while_the_app_only_sends(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)
        await trio.sleep_forever()

    socket = await dial(nursery, app)
    with trio.fail_after(5):
        await socket.ping()


async def test_the_app_can_ping_and_hears_the_pong(nursery: trio.Nursery) -> None:
    chat = Chat({"type": "websocket.ping"})
    await dial(nursery, chat)
    await wait_all_tasks_blocked()

    assert chat.received == [{"type": "websocket.pong"}]


async def test_a_pong_nobody_asked_for_is_not_delivered(nursery: trio.Nursery) -> None:
    chat = Chat()
    socket = await dial(nursery, chat)
    await socket.pong(b"hello?")
    await socket.send_message("after")
    assert await socket.get_message() == "after"

    assert [message["type"] for message in chat.received] == ["websocket.receive"]


# --- the end --------------------------------------------------------------------------------------


async def test_the_app_closes_with_code_and_reason(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    socket = await dial(nursery, Chat({"type": "websocket.close", "code": 4401, "reason": "who?"}))

    with pytest.raises(ConnectionClosed) as caught:
        await socket.get_message()
    assert caught.value.reason is not None
    assert (caught.value.reason.code, caught.value.reason.reason) == (4401, "who?")
    await wait_all_tasks_blocked()
    assert trio.current_time() == 0


async def test_after_its_close_the_app_hears_its_own_code_and_cannot_send(
    nursery: trio.Nursery,
) -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)
        await send({"type": "websocket.close", "code": 4000, "reason": "r"})
        heard.extend([await receive(), await receive(), await receive()])
        for kind in ("websocket.ping", "websocket.close"):
            with trio.testing.assert_checkpoints(), pytest.raises(ConnectionGone):
                await send({"type": kind})
        heard.append({"type": "done"})

    await dial(nursery, app)
    await wait_all_tasks_blocked()

    gone = {"type": "websocket.disconnect", "code": 4000, "reason": "r"}
    assert heard == [{"type": "websocket.connect"}, gone, gone, {"type": "done"}]


async def test_the_app_hears_the_peers_code_after_every_message(nursery: trio.Nursery) -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)
        heard.extend([await receive() for _ in range(5)])

    hand = await peer(nursery, app)
    frames = [
        *(hand.protocol.send(ws.TextMessage(data=str(n))) for n in range(3)),
        hand.protocol.send(ws.CloseConnection(code=4001, reason="bye")),
    ]
    await hand.stream.send_all(b"".join(frames))
    await wait_all_tasks_blocked()

    assert [message["text"] for message in heard[1:-1]] == ["0", "1", "2"]
    assert heard[-1] == {"type": "websocket.disconnect", "code": 4001, "reason": "bye"}
    closes = [event for event in await hand.hear() if isinstance(event, ws.CloseConnection)]
    assert [close.code for close in closes] == [4001]


async def test_a_close_without_code_is_1005(nursery: trio.Nursery) -> None:
    chat = Chat()
    hand = await peer(nursery, chat)
    await hand.stream.send_all(b"\x88\x80\x00\x00\x00\x00")
    await wait_all_tasks_blocked()

    assert chat.received == [{"type": "websocket.disconnect", "code": 1005, "reason": ""}]


async def test_a_peer_that_just_leaves_is_1006(nursery: trio.Nursery) -> None:
    chat = Chat()
    hand = await peer(nursery, chat)
    await hand.stream.aclose()
    await wait_all_tasks_blocked()

    assert chat.received == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}]


async def test_a_loop_that_only_sends_ends_when_the_peer_left(nursery: trio.Nursery) -> None:
    """wire-facts D5, hazard 2."""
    ended: list[OSError] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)
        try:
            while True:
                await send({"type": "websocket.send", "text": "x"})
        except OSError as error:
            ended.append(error)
            with trio.testing.assert_checkpoints(), pytest.raises(ConnectionGone):
                await send({"type": "websocket.send", "text": "x"})

    hand = await peer(nursery, app)
    with trio.fail_after(5):
        await hand.stream.aclose()
        await wait_all_tasks_blocked()

    assert isinstance(ended[0], ConnectionGone)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x01x", 1002),  # not masked
        (b"\x83\x80\x00\x00\x00\x00", 1002),  # no such opcode
        (b"\x81\x82\x00\x00\x00\x00\xff\xff", 1007),  # not UTF-8
        (b"\xc1\x80\x00\x00\x00\x00", 1002),  # reserved bit
    ],
)
async def test_a_broken_frame_closes_with_its_code(
    nursery: trio.Nursery, autojump_clock: MockClock, frame: bytes, code: int
) -> None:
    chat = Chat()
    hand = await peer(nursery, chat)
    await hand.stream.send_all(frame + b"\x81\x80 and more")

    [close] = await hand.hear()
    assert isinstance(close, ws.CloseConnection)
    assert close.code == code
    await wait_all_tasks_blocked()
    assert [message["code"] for message in chat.received] == [code]
    assert await hand.stream.receive_some() == b""
    assert trio.current_time() <= 5


async def test_a_crash_closes_1011(nursery: trio.Nursery, caplog: pytest.LogCaptureFixture) -> None:
    socket = await dial(nursery, Chat(end=ValueError("the secret reason")))

    with pytest.raises(ConnectionClosed) as caught:
        await socket.get_message()
    assert caught.value.reason is not None
    assert caught.value.reason.code == 1011
    assert not caught.value.reason.reason
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0].exc_info


async def test_an_app_that_returns_closes_1000(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)

    socket = await dial(nursery, app)
    with pytest.raises(ConnectionClosed) as caught:
        await socket.get_message()
    assert caught.value.reason is not None
    assert caught.value.reason.code == 1000


async def test_an_app_that_ends_badly_since_its_peer_left_is_no_error(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)
        await receive()
        await receive()
        raise ValueError("as many apps do")

    hand = await peer(nursery, app)
    await hand.say(ws.CloseConnection(code=1000))
    await wait_all_tasks_blocked()

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_peer_that_never_closes_is_not_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(ACCEPT)

    hand = await peer(nursery, app)
    assert len(await hand.hear()) == 1
    await hand.stream.send_all(b"\x81\x84\x00\x00\x00\x00deaf")

    assert await hand.stream.receive_some() == b""
    assert trio.current_time() == 2.0


async def test_cancelled_it_says_that_it_goes_away(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    chat = Chat()
    async with trio.open_nursery() as served:
        hand = await peer(served, chat)
        await wait_all_tasks_blocked()
        served.cancel_scope.cancel()
    [close] = await hand.hear()

    assert isinstance(close, ws.CloseConnection)
    assert close.code == 1001
    assert trio.current_time() == 0
