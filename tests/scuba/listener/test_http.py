"""One HTTP connection: what the app sees, what the client gets, and who may break what."""

import logging
from collections.abc import Awaitable, Callable

import h11
import msgspec
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from scuba.listener import ConnectionGone, ListenerConfig, Message, Receive, Scope, Send
from scuba.listener.heads import Ends
from scuba.listener.http import HttpConnection
from tests.kit.listening import Client, connect

GET = b"GET /a%20b?q=1 HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
START: Message = {"type": "http.response.start", "status": 200, "headers": []}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def read_body(receive: Receive) -> bytes:
    data = b""
    while True:
        message = await receive()
        data += bytes(message["body"])
        if not message["more_body"]:
            return data


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    data = await read_body(receive)
    await send(START)
    await send(body(data))


def problem(data: bytes) -> dict[str, object]:
    decoded: dict[str, object] = msgspec.json.decode(data)
    return decoded


# --- requests and responses -----------------------------------------------------------------------


async def test_the_app_sees_the_request(nursery: trio.Nursery) -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await echo(scope, receive, send)

    await Client(connect(nursery, app)).ask(GET)

    assert seen[0]["type"] == "http"
    assert seen[0]["method"] == "GET"
    assert seen[0]["path"] == "/a b"
    assert seen[0]["raw_path"] == b"/a%20b"
    assert seen[0]["query_string"] == b"q=1"
    assert seen[0]["headers"] == [(b"host", b"x")]
    assert seen[0]["http_version"] == "1.1"


async def test_a_response_of_one_message_is_one_write(nursery: trio.Nursery) -> None:
    client, server = memory_stream_pair()
    writes: list[None] = []
    pump = server.send_stream.send_all_hook

    async def count() -> None:
        assert pump is not None
        writes.append(None)
        await pump()

    server.send_stream.send_all_hook = count
    nursery.start_soon(HttpConnection(echo, server, ListenerConfig(), Ends()).run)

    answer = await Client(client).ask(POST)

    assert answer.body == b"hello"
    assert answer.headers["content-length"] == "5"
    assert "date" in answer.headers
    assert len(writes) == 1


async def test_requests_follow_each_other_on_one_connection(nursery: trio.Nursery) -> None:
    client = Client(connect(nursery, echo))

    assert [(await client.ask(POST)).body for _ in range(3)] == [b"hello"] * 3


async def test_requests_sent_at_once_are_answered_in_order(nursery: trio.Nursery) -> None:
    async def path(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(scope["raw_path"]))

    client = Client(connect(nursery, path))
    await client.stream.send_all(GET.replace(b"/a", b"/1") + GET.replace(b"/a", b"/2"))

    assert (await client.answer()).body == b"/1%20b"
    assert (await client.answer()).body == b"/2%20b"


async def test_a_head_request_gets_no_body(nursery: trio.Nursery) -> None:
    client = Client(connect(nursery, echo))

    answer = await client.ask(GET.replace(b"GET", b"HEAD"))
    assert (answer.status, answer.body) == (200, b"")
    assert (await client.ask(POST)).body == b"hello"


async def test_a_streamed_response_comes_piece_by_piece(nursery: trio.Nursery) -> None:
    go_on = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"one", more=True))
        await go_on.wait()
        await send(body(b"two"))

    client = Client(connect(nursery, app))
    await client.stream.send_all(GET)
    first = await client.stream.receive_some()
    go_on.set()

    assert first.endswith(b"3\r\none\r\n")
    assert await client.stream.receive_some() == b"3\r\ntwo\r\n0\r\n\r\n"


async def test_a_chunked_body_is_read_as_it_comes(nursery: trio.Nursery) -> None:
    pieces: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not pieces or pieces[-1]["more_body"]:
            pieces.append(await receive())
        await echo(scope, lambda: _ready({"body": b"", "more_body": False}), send)

    client = Client(connect(nursery, app))
    await client.stream.send_all(CHUNKED + b"3\r\none\r\n")
    await wait_all_tasks_blocked()
    assert [piece["body"] for piece in pieces] == [b"one"]
    answer = await client.ask(b"3\r\ntwo\r\n0\r\n\r\n")

    assert b"".join(piece["body"] for piece in pieces) == b"onetwo"
    assert answer.status == 200


async def _ready(message: Message) -> Message:
    await trio.lowlevel.checkpoint()
    return message


async def test_a_client_that_asks_is_told_to_continue_when_the_app_reads(
    nursery: trio.Nursery,
) -> None:
    client = Client(connect(nursery, echo))
    head, _, data = POST.partition(b"\r\n\r\n")
    await client.stream.send_all(head + b"\r\nExpect: 100-continue\r\n\r\n")

    assert (await client.stream.receive_some()).startswith(b"HTTP/1.1 100 Continue\r\n")
    assert (await client.ask(data)).body == b"hello"


async def test_a_client_that_asks_is_refused_without_its_body(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "status": 401})
        await send(body(b"no"))

    client = Client(connect(nursery, app))
    head, _, _ = POST.partition(b"\r\n\r\n")

    answer = await client.ask(head + b"\r\nExpect: 100-continue\r\n\r\n")
    assert answer.status == 401


async def test_an_old_client_gets_its_answer_and_the_end(nursery: trio.Nursery) -> None:
    stream = connect(nursery, echo)
    await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")

    received = b"".join([data async for data in stream])
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close\r\n" in received


async def test_an_upgrade_to_something_else_is_not_taken_up(nursery: trio.Nursery) -> None:
    client = Client(connect(nursery, echo))
    h2c = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n"

    assert (await client.ask(POST.replace(b"Host: x\r\n", h2c))).body == b"hello"
    assert (await client.ask(POST)).body == b"hello"


async def test_a_small_body_nobody_read_does_not_end_the_connection(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"ok"))

    client = Client(connect(nursery, app))

    assert (await client.ask(POST)).status == 200
    assert (await client.ask(POST)).status == 200


# --- the end of the client, and of the response ---------------------------------------------------


@pytest.mark.parametrize("request_", [GET, POST, POST[:-2]], ids=["get", "post", "half a body"])
async def test_a_waiting_app_hears_that_the_client_left(
    nursery: trio.Nursery, request_: bytes
) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not heard or heard[-1] != "http.disconnect":
            heard.append((await receive())["type"])

    stream = connect(nursery, app)
    await stream.send_all(request_)
    await wait_all_tasks_blocked()
    await stream.aclose()
    await wait_all_tasks_blocked()

    assert heard[-1] == "http.disconnect"


async def test_a_waiting_app_hears_that_its_response_is_complete(nursery: trio.Nursery) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def listen() -> None:
            heard.extend([(await receive())["type"] for _ in range(3)])

        async with trio.open_nursery() as both:
            both.start_soon(listen)
            await wait_all_tasks_blocked()
            await send(START)
            await send(body(b"done"))

    client = Client(connect(nursery, app))

    assert (await client.ask(GET)).body == b"done"
    assert (await client.ask(GET)).body == b"done"
    assert heard[:3] == ["http.request", "http.disconnect", "http.disconnect"]


async def test_a_request_that_comes_while_the_app_waits_is_kept(nursery: trio.Nursery) -> None:
    release = trio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as both:
            await receive()
            both.start_soon(receive)
            await release.wait()
            await send(START)
            await send(body(scope["raw_path"]))

    client = Client(connect(nursery, app))
    await client.stream.send_all(GET.replace(b"/a", b"/1"))
    await wait_all_tasks_blocked()
    await client.stream.send_all(GET.replace(b"/a", b"/2"))
    await wait_all_tasks_blocked()
    release.set()

    assert (await client.answer()).body == b"/1%20b"
    assert (await client.answer()).body == b"/2%20b"


async def test_a_loop_that_only_sends_ends_when_the_client_left(nursery: trio.Nursery) -> None:
    """wire-facts D5, hazard 2: each send is a checkpoint, and the first on a dead line raises."""
    ended: list[BaseException] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        try:
            while True:
                await send(body(b"x", more=True))
        except OSError as error:
            ended.append(error)
            for _ in range(3):
                with trio.testing.assert_checkpoints(), pytest.raises(ConnectionGone):
                    await send(body(b"x", more=True))
            raise

    stream = connect(nursery, app)
    await stream.send_all(GET)
    await stream.receive_some()
    with trio.fail_after(5):
        await stream.aclose()
        await wait_all_tasks_blocked()

    assert isinstance(ended[0], ConnectionGone)


# --- apps that fail -------------------------------------------------------------------------------

Fail = Callable[[Send], Awaitable[None]]


async def fail_plainly(send: Send) -> None:
    raise ValueError("the secret reason")


async def fail_in_a_group(send: Send) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail_plainly, send)
        nursery.start_soon(fail_plainly, send)


async def fail_with_a_bad_header(send: Send) -> None:
    await send({**START, "headers": [(b"bad name", b"x")]})
    await send(body(b"x"))


async def fail_by_saying_too_much(send: Send) -> None:
    await send({**START, "headers": [(b"content-length", b"1")]})
    await send(body(b"four"))


async def fail_by_being_out_of_turn(send: Send) -> None:
    await send(body(b"no start"))


@pytest.mark.parametrize(
    "fail",
    [
        fail_plainly,
        fail_in_a_group,
        fail_with_a_bad_header,
        fail_by_saying_too_much,
        fail_by_being_out_of_turn,
    ],
)
async def test_a_crash_is_a_500_and_one_line_in_the_log(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, fail: Fail
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await fail(send)

    answer = await Client(connect(nursery, app)).ask(GET)
    said = problem(answer.body)

    assert answer.status == said["status"] == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert said["code"] == "internal"
    assert said["requestId"] == answer.headers["x-request-id"]
    assert b"secret" not in answer.body
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0].exc_info
    assert str(said["requestId"]) in errors[0].getMessage()
    assert "q=1" not in errors[0].getMessage()


async def test_no_answer_is_a_500_too(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    answer = await Client(connect(nursery, app)).ask(GET)

    assert problem(answer.body)["code"] == "internal"
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


@pytest.mark.parametrize("crash", [True, False])
async def test_half_a_response_never_looks_like_a_whole_one(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture, crash: bool
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"half", more=True))
        if crash:
            raise ValueError("no more")

    with pytest.raises(h11.RemoteProtocolError):
        await Client(connect(nursery, app)).ask(GET)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


async def test_cancellation_passes_and_closes(autojump_clock: MockClock) -> None:
    client, server = memory_stream_pair()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()

    with trio.move_on_after(3) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpConnection(app, server, ListenerConfig(), Ends()).run)
            await client.send_all(GET)

    assert scope.cancelled_caught
    assert trio.current_time() == 3
    assert await client.receive_some() == b""


async def test_an_error_beside_a_cancellation_is_logged_and_the_cancellation_passes(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    outer = trio.CancelScope()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def stumble() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("on the way out")

        async with trio.open_nursery() as both:
            both.start_soon(stumble)
            both.start_soon(trio.sleep_forever)
            await wait_all_tasks_blocked()
            outer.cancel()

    client, server = memory_stream_pair()
    await client.send_all(GET)
    with outer:
        await HttpConnection(app, server, ListenerConfig(), Ends()).run()

    assert outer.cancelled_caught
    assert "on the way out" in caplog.text


# --- peers that misbehave -------------------------------------------------------------------------

LOW = ListenerConfig(header_bytes=200, body_bytes=4)


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"NONSENSE\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        (b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "http_version"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 190 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 4000, 431, "headers_too_large"),
        (POST, 413, "body_too_large"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", 413, "body_too_large"),
        (CHUNKED + b"what?\r\n", 400, "bad_request"),
        (CHUNKED.replace(b"chunked", b"gzip"), 501, "not_implemented"),
    ],
)
async def test_a_bad_request_gets_one_clear_answer_and_the_end(
    nursery: trio.Nursery, request_: bytes, status: int, code: str
) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            heard.append(message["type"])
        with pytest.raises(ConnectionGone):
            await send(START)
        raise ConnectionGone

    client = Client(connect(nursery, app, LOW))
    answer = await client.ask(request_)
    said = problem(answer.body)

    assert (answer.status, said["status"], said["code"]) == (status, status, code)
    assert said["type"] == f"urn:bubble:error:{code}"
    assert answer.headers["connection"] == "close"
    assert await client.stream.receive_some() == b""
    assert heard == []


async def test_a_refusal_that_nobody_hears_is_a_disconnect_too(nursery: trio.Nursery) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([(await receive())["type"] for _ in range(2)])

    stream = connect(nursery, app, LOW)
    await stream.send_all(CHUNKED)
    await wait_all_tasks_blocked()
    await stream.receive_stream.aclose()
    await stream.send_all(b"5\r\nhello\r\n")
    await wait_all_tasks_blocked()

    assert heard == ["http.disconnect", "http.disconnect"]


async def test_a_bad_body_after_the_response_began_cuts_it(nursery: trio.Nursery) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"so far", more=True))
        while (await receive())["type"] != "http.disconnect":
            pass

    with pytest.raises(h11.RemoteProtocolError):
        await Client(connect(nursery, app)).ask(CHUNKED + b"what?\r\n")


async def test_the_last_words_are_read_before_the_close(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """A close on top of unread data would reset the connection, and take the answer back."""
    stream = connect(nursery, echo, LOW)
    await stream.send_all(POST)
    with trio.fail_after(5):
        while await stream.receive_some():
            pass
        await stream.send_all(b"more of a body that nobody wants")
    assert trio.current_time() == 0.0

    await trio.sleep(5)
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(b"too much")


async def test_a_silent_client_is_let_go(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    stream = connect(nursery, echo, ListenerConfig(header_s=10))

    assert await stream.receive_some() == b""
    assert trio.current_time() == 10


async def test_a_slow_head_is_told_so(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    client = Client(connect(nursery, echo, ListenerConfig(header_s=10)))
    await trio.sleep(4)

    answer = await client.ask(GET[:20])

    assert (answer.status, problem(answer.body)["code"]) == (408, "request_timeout")
    assert trio.current_time() == 10


async def test_a_head_that_trickles_is_not_progress(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    client = Client(connect(nursery, echo, ListenerConfig(header_s=10)))

    async def trickle() -> None:
        for byte in GET[:20]:
            await client.stream.send_all(bytes([byte]))
            await trio.sleep(1)

    nursery.start_soon(trickle)
    answer = await client.answer()

    assert answer.status == 408
    assert trio.current_time() == 10


async def test_an_idle_connection_is_closed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    client = Client(connect(nursery, echo, ListenerConfig(idle_s=75)))
    await client.ask(GET)

    assert await client.stream.receive_some() == b""
    assert trio.current_time() == 75


async def test_a_body_that_stops_coming_is_told_so(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    client = Client(connect(nursery, echo, ListenerConfig(body_s=30)))
    await client.stream.send_all(POST[:-3])
    await trio.sleep(20)

    answer = await client.ask(POST[-3:-1])

    assert (answer.status, problem(answer.body)["code"]) == (408, "request_timeout")
    assert trio.current_time() == 50


async def test_a_refused_head_request_gets_no_body(nursery: trio.Nursery) -> None:
    client = Client(connect(nursery, echo, LOW))

    answer = await client.ask(b"HEAD " + b"/" * 200 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (answer.status, answer.body) == (431, b"")
    assert await client.stream.receive_some() == b""
