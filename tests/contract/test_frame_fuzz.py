"""A real server under malformed frames: it lives, serves the others, and keeps its size.

`SCUBA_FRAMES=100000 SCUBA_SEED=… pytest tests/contract/test_frame_fuzz.py` (`just fuzz`) is longer.
"""

import os
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from tests.kit.evil_frames import (
    BAD,
    FIRST_FRAMES,
    GOOD,
    STREAMS,
    UPGRADES,
    Stream,
    evil_text,
    frame,
    request,
    upgrade,
)
from tests.kit.served import Served, served

FRAMES = int(os.environ.get("SCUBA_FRAMES", "20000"))
SEED = os.environ.get("SCUBA_SEED", "bubble")
SOCKETS = 4
"""So many evil clients at a time."""
BATCH = 60
"""So many evil texts are sent before their answers are read."""
ROUND = 600
"""So many of them on a socket, before others are broken."""
ANSWER_S = 5.0
"""Longest time that anybody else has to wait for an answer meanwhile."""
GROWTH_BYTES = 32 * 1024 * 1024
"""As much more memory may be in use, once warm, than before."""
PATIENCE_S = 30.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as running:
        yield running


class Peer:
    """A client that sends what it is told, byte for byte, and reads frames."""

    def __init__(self, stream: trio.SocketStream, patience: trio.CancelScope) -> None:
        self.stream = stream
        self._patience = patience
        self._data = bytearray()

    def renew(self) -> None:
        """Have as much patience as at the start: the server has kept up so far."""
        self._patience.deadline = trio.current_time() + PATIENCE_S

    async def send(self, data: bytes) -> None:
        """Send; a server that has closed already is no surprise here."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def status(self) -> int:
        """Return the status of the answer to a request, 0 when there is none."""
        while b"\r\n\r\n" not in self._data:
            if not await self._more():
                return 0
        head, _, rest = bytes(self._data).partition(b"\r\n\r\n")
        self._data[:] = rest
        return int(head.split()[1])

    async def frame(self) -> tuple[int, bytes] | None:
        """Return opcode and payload of the next frame, None at the end."""
        while True:
            size, begin = self._measure()
            if begin and len(self._data) >= begin + size:
                opcode, payload = self._data[0] & 15, bytes(self._data[begin : begin + size])
                del self._data[: begin + size]
                return opcode, payload
            if not await self._more():
                return None

    def _measure(self) -> tuple[int, int]:
        """Return the payload's size and where it begins; (0, 0) if that is not told yet."""
        if len(self._data) < 2:
            return 0, 0
        size = self._data[1]
        width = {126: 2, 127: 8}.get(size, 0)
        if len(self._data) < 2 + width:
            return 0, 0
        return int.from_bytes(self._data[2 : 2 + width]) if width else size, 2 + width

    async def close_code(self) -> int | None:
        """Read to the end; return the code, 1005 for a close without, None without a close."""
        while (told := await self.frame()) is not None:
            opcode, payload = told
            if opcode == 8:
                await self.send(frame(payload[:2], 0x88))
                return struct.unpack("!H", payload[:2])[0] if payload else 1005
        return None

    async def _more(self) -> bool:
        try:
            data = await self.stream.receive_some(65_536)
        except trio.BrokenResourceError:
            return False
        self._data += data
        return bool(data)


@asynccontextmanager
async def dialled(server: Served) -> AsyncIterator[Peer]:
    with trio.fail_after(PATIENCE_S) as patience:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            yield Peer(stream, patience)


@asynccontextmanager
async def authenticated(server: Served) -> AsyncIterator[Peer]:
    async with dialled(server) as peer:
        token = server.bot_token.encode()
        await peer.send(upgrade() + frame(b'{"type":"client.auth","token":"' + token + b'"}'))
        assert await peer.status() == 101
        told = await peer.frame()
        assert told is not None
        assert told[1].startswith(b'{"type":"server.ready"'), told
        yield peer


# --- what the evil do --------------------------------------------------------------------------


async def talk_nonsense(
    server: Served, chance: random.Random, count: int, sent: Counter[str]
) -> None:
    """Send so many evil texts, never three without a good one, and expect each to be survived."""
    async with authenticated(server) as peer:
        for _ in range(0, count, BATCH):
            data = bytearray()
            for number in range(BATCH):
                data += frame(evil_text(chance, server.thread_id).encode(errors="surrogatepass"))
                if number % 2:
                    data += frame(b'{"type":"client.ping","ref":"ok"}')
            await peer.send(bytes(data) + GOOD)
            await _until_last_pong(peer)
            peer.renew()
            sent["texts"] += BATCH


async def _until_last_pong(peer: Peer) -> None:
    while True:
        told = await peer.frame()
        assert told is not None, "the server cut a socket that broke no rule of WebSocket"
        opcode, payload = told
        assert opcode in (1, 9), told
        if payload == b'{"type":"server.pong","ref":"last"}':
            return
        assert opcode == 9 or payload.startswith(b'{"type":"server.'), payload


async def break_rules(server: Served, chance: random.Random, stream: Stream) -> None:
    """Send one stream that ends a socket, and look at the code of its end."""
    async with authenticated(server) as peer:
        await peer.send(frame(b"{}") + GOOD + stream.data(chance))
        if stream.code is None:
            await peer.stream.send_eof()
            await peer.close_code()
        else:
            assert (stream.name, await peer.close_code()) == (stream.name, stream.code)


async def cut(server: Served, chance: random.Random) -> None:
    """Leave without a word, somewhere within a frame."""
    async with authenticated(server) as peer:
        data = frame(evil_text(chance, server.thread_id).encode(errors="surrogatepass"))
        await peer.send(BAD + data[: chance.randrange(len(data))])


async def not_introduce_oneself(server: Served, first: bytes) -> None:
    async with dialled(server) as peer:
        await peer.send(upgrade() + frame(first))
        assert await peer.status() == 101
        assert (first, await peer.close_code()) == (first, 4401)


async def not_upgrade(server: Served, asked: bytes, expected: set[int]) -> None:
    async with dialled(server) as peer:
        await peer.send(asked)
        status = await peer.status()
        assert status in expected, (asked[:200], status)


async def worker(server: Served, number: int, count: int, sent: Counter[str]) -> None:
    """Do all of it, in an order that the seed decides."""
    chance = random.Random(f"{SEED}/{number}")
    for left in range(count, 0, -ROUND):
        await talk_nonsense(server, chance, min(left, ROUND), sent)
        for _ in range(6):
            await break_rules(server, chance, chance.choice(STREAMS))
            await cut(server, chance)
            await not_introduce_oneself(server, chance.choice(FIRST_FRAMES))
            await not_upgrade(server, *chance.choice(UPGRADES))
            sent["sockets"] += 4


async def assail(server: Served, count: int) -> Counter[str]:
    """Return what was sent, after so many evil texts and what belongs to them."""
    sent: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        for number in range(SOCKETS):
            nursery.start_soon(partial(worker, server, number, count // SOCKETS, sent))
    return sent


# --- what the good notice ----------------------------------------------------------------------


async def watch(server: Served, waits_s: list[float]) -> None:
    """Be a good client meanwhile, by HTTP and on a socket; note how long answers take."""
    asking = f"Authorization: Bearer {server.owner_token}"
    ask = request("GET /v1/auth/whoami HTTP/1.1", asking, "Connection: close")
    while True:
        began = trio.current_time()
        async with dialled(server) as peer:
            await peer.send(ask)
            assert await peer.status() == 200
        async with authenticated(server) as peer:
            await peer.send(GOOD)
            await _until_last_pong(peer)
        waits_s.append(trio.current_time() - began)
        await trio.sleep(0.1)


async def at_rest(server: Served) -> bool:
    """Return whether no file is open that was not at the start, once what lingers is gone."""
    with trio.move_on_after(10):
        while server.files() > server.idle_files:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.1)
    return server.files() <= server.idle_files


# --- the tests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name.replace(" ", "-"))
async def test_each_broken_rule_ends_its_socket_with_its_code(
    server: Served, stream: Stream
) -> None:
    await break_rules(server, random.Random(SEED), stream)


@pytest.mark.parametrize("number", range(len(UPGRADES)))
async def test_no_broken_upgrade_is_a_fault_of_the_server(server: Served, number: int) -> None:
    await not_upgrade(server, *UPGRADES[number])


@pytest.mark.parametrize("number", range(len(FIRST_FRAMES)))
async def test_who_does_not_say_who_it_is_gets_4401(server: Served, number: int) -> None:
    await not_introduce_oneself(server, FIRST_FRAMES[number])


async def test_malformed_frames_cost_nobody_anything(server: Served) -> None:
    """A failure tells its seed; `SCUBA_SEED` repeats it."""
    began = trio.current_time()
    await assail(server, FRAMES // 5)  # to be warm
    assert await at_rest(server)
    rss_bytes = server.rss_bytes()
    waits_s: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, server, waits_s)
        sent = await assail(server, FRAMES * 4 // 5)
        nursery.cancel_scope.cancel()
    grown_bytes = server.rss_bytes() - rss_bytes
    took_s = trio.current_time() - began
    told = f"seed {SEED}: {dict(sent)} in {took_s:.0f} s, {grown_bytes} bytes, {max(waits_s):.2f} s"

    assert server.alive(), told
    assert sent["texts"] >= FRAMES * 4 // 5, told
    assert max(waits_s) < ANSWER_S, told
    assert grown_bytes < GROWTH_BYTES, told
    assert await at_rest(server), told
