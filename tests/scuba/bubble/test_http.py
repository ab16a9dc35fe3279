"""BubbleClient against bytes on a wire: every answer is a value, Unavailable or Refused."""

import gc
import logging
import random
import ssl
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import trio

from actors.ports import Refused, Unavailable
from scuba import wire
from scuba.bubble import BubbleClient, calls
from scuba.errors import ConfigError
from tests.kit.listening import tls_pair
from tests.kit.sockets import open_sockets, until
from tests.scuba.bubble.conftest import TOKEN

INFO = msgspec.json.encode(
    {"name": "b", "server": "s", "protocol": {"major": 1}, "logEpoch": "e", "authDrivers": []}
)


def answer(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Canned:
    """Answers each connection's first request with the same bytes."""

    def __init__(self, reply: bytes | None) -> None:
        self.reply = reply
        self.requests: list[bytes] = []

    async def __call__(self, stream: trio.abc.Stream) -> None:
        try:
            self.requests.append(bytes(await stream.receive_some(65_536)))
            if self.reply is None:
                await trio.sleep_forever()
            await stream.send_all(self.reply)
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def client_of(
    handler: Callable[[trio.abc.Stream], Awaitable[None]], token: str = TOKEN
) -> AsyncIterator[BubbleClient]:
    async with trio.open_nursery() as nursery:
        serve = trio.serve_tcp
        [listener] = await nursery.start(
            lambda task_status: serve(handler, 0, host="127.0.0.1", task_status=task_status)
        )
        port = listener.socket.getsockname()[1]
        with trio.fail_after(10):
            async with BubbleClient(f"http://127.0.0.1:{port}/p", token) as client:
                yield client
        nursery.cancel_scope.cancel()


async def test_the_prefix_and_the_token_go_where_they_belong() -> None:
    canned = Canned(answer(INFO))
    async with client_of(canned, f"{TOKEN}\n") as client:
        assert (await client.info()).log_epoch == "e"

    head = canned.requests[0].decode()
    assert head.startswith("GET /p/v1/info HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n" in head


@pytest.mark.parametrize("token", ["", "   ", "\n", "a b c d e f g h", "tök" * 9])
def test_a_token_that_can_be_none_is_refused_before_any_request(token: str) -> None:
    """Field case 11.1."""
    with pytest.raises(ConfigError, match="token") as caught:
        BubbleClient("http://127.0.0.1:1", token)

    assert not token.strip() or token not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (answer(b'{"name":"b"', length=500), "RemoteProtocolError"),
        (answer(b"<html>hello</html>"), "cannot be read"),
        (answer(b'{"name":7}'), "cannot be read"),
        (answer(b""), "cannot be read"),
        (b"", "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH\r\n", "RemoteProtocolError"),
        (answer(b"<html>", "502 Bad Gateway"), "502"),
        (answer(b"", "503 Service Unavailable"), "503"),
    ],
)
async def test_what_may_pass_is_unavailable(reply: bytes, says: str) -> None:
    async with client_of(Canned(reply)) as client:
        with pytest.raises(Unavailable, match=says):
            await client.info()


async def test_nobody_there_is_unavailable() -> None:
    async with BubbleClient("http://127.0.0.1:1", TOKEN) as client:
        with pytest.raises(Unavailable, match=r"ConnectError: .*refused"):
            await client.info()


async def test_no_answer_in_time_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALL_S", 0.2)
    async with client_of(Canned(None)) as client:
        with pytest.raises(Unavailable, match=r"no answer within 0.2 s"):
            await client.info()


async def test_a_wait_is_told_in_either_form() -> None:
    """Field case 8.11, the client's part."""
    problem = b'{"type":"t","title":"t","status":429,"code":"rate_limited"}'
    date = "Date: Mon, 30 Nov 2026 12:00:00 GMT"
    for header in ("Retry-After: 5", "Retry-After: Mon, 30 Nov 2026 12:00:05 GMT"):
        async with client_of(Canned(answer(problem, "429 Too Many", header, date))) as client:
            with pytest.raises(Unavailable, match="rate_limited") as caught:
                await client.append("thr_a", [wire.NewEvent(type="x.y.z")])

        assert caught.value.retry_after_s == 5.0


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_never_followed(status: str) -> None:
    """Field case 13.4: the bearer goes to the configured server only."""
    target = Canned(answer(INFO))
    async with client_of(target) as other:
        location = f"Location: {other.address.base}/v1/info"
        async with client_of(Canned(answer(b"", status, location))) as client:
            with pytest.raises(Refused, match="never followed"):
                await client.info()

    assert target.requests == []


async def test_as_many_receipts_as_events_or_it_is_tried_again() -> None:
    """Field case 2.4: an answer that does not fit leaves the append uncertain."""
    async with client_of(Canned(answer(b'{"events":[],"lastSeq":9}', "201 Created"))) as client:
        with pytest.raises(Unavailable, match="0 receipts came for 1 events"):
            await client.append("thr_a", [wire.NewEvent(type="x.y.z", key="k")])


async def test_pages_that_stand_still_are_not_read_for_ever() -> None:
    page = b'{"threadId":"t","logEpoch":"e","events":[],"firstSeq":1,"lastSeq":9,"hasMore":true}'
    async with client_of(Canned(answer(page))) as client:
        with pytest.raises(Unavailable, match="stand still"):
            async for _ in client.pages("t"):
                pass


@pytest.mark.parametrize(
    "reply", [None, b"", answer(b"no"), answer(b"", "500 No"), answer(b"", "401 No")]
)
async def test_the_token_is_in_no_error_no_log_and_no_repr(
    reply: bytes | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Field case 12.1: at the most verbose level, with the locals of every frame."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(calls, "CALL_S", 0.2)
    async with client_of(Canned(reply)) as client:
        with pytest.raises((Unavailable, Refused)) as caught:
            await client.whoami()
        shown = repr(client) + repr(vars(client))

    error: BaseException | None = caught.value
    assert error is not None
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert TOKEN not in "".join(told.format()) + shown + caplog.text


async def test_tls_is_checked_and_spoken() -> None:
    server_context, client_context = tls_pair()
    canned = Canned(answer(INFO))

    async def handler(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        with suppress(trio.BrokenResourceError):
            await canned(trio.SSLStream(stream, server_context, server_side=True))

    async with client_of(handler) as plain:
        url = f"https://127.0.0.1:{plain.address.port}"
        async with BubbleClient(url, TOKEN, verify=lambda: client_context) as client:
            assert (await client.info()).log_epoch == "e"
        async with BubbleClient(url, TOKEN, verify=ssl.create_default_context) as stranger:
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await stranger.info()
    assert len(canned.requests) == 1


async def test_a_handshake_that_is_cancelled_leaves_no_socket() -> None:
    """Field case 8.9, under TLS: without help from the garbage collector."""
    server_context, client_context = tls_pair()
    moments = random.Random(3)

    async def handler(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        with suppress(trio.BrokenResourceError):
            await Canned(answer(INFO))(trio.SSLStream(stream, server_context, server_side=True))

    async with client_of(handler) as plain:
        url = f"https://127.0.0.1:{plain.address.port}"
        before = open_sockets()
        gc.disable()
        try:
            async with BubbleClient(url, TOKEN, verify=lambda: client_context) as client:

                async def call_for(seconds: float) -> None:
                    with trio.move_on_after(seconds), suppress(Unavailable):
                        await client.info()

                for _ in range(5):
                    async with trio.open_nursery() as nursery:
                        for _ in range(20):
                            nursery.start_soon(call_for, moments.random() * 0.05)
                await client.info()
            await until(lambda: open_sockets() <= before)
            assert open_sockets() <= before
        finally:
            gc.enable()
