"""Readiness as systemd hears it: from the real process, once, when all is ready; then its stop."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.kit.apart import Apart
from tests.kit.program import environ

PATIENCE_S = 60.0
CREDENTIALS = struct.Struct("3i")


class Listener:
    """What systemd is to a service of type notify: a socket that knows who wrote."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))

    async def heard(self) -> tuple[bytes, int]:
        """Return the next words, and the pid of the process that wrote them."""
        with trio.fail_after(PATIENCE_S):
            await trio.lowlevel.wait_readable(self._socket)
        words, extra, _, _ = self._socket.recvmsg(256, socket.CMSG_SPACE(CREDENTIALS.size))
        ((_, _, data),) = extra
        return words, CREDENTIALS.unpack(data)[0]

    @property
    def silent(self) -> bool:
        """Whether nothing waits to be heard."""
        try:
            self._socket.recv(256, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(place: Path) -> Iterator[Listener]:
    listener = Listener(place / "notify")
    yield listener
    listener.close()


async def test_systemd_hears_once_that_a_bot_is_ready_and_once_that_it_stops(
    parted: Apart, systemd: Listener
) -> None:
    """Field case 16.4: not while the server is away; from the main process; no child can say it."""
    parted.network.refuse()
    bot = parted.start_bot(NOTIFY_SOCKET=str(parted.place / "notify"))
    await bot.says("cannot reach the server yet")
    assert systemd.silent

    parted.network.accept()
    assert await systemd.heard() == (b"READY=1", bot.pid)
    assert (await parted.talk.ask("hello")).text() == "echo: hello"
    children = bot.family()
    assert children
    for child in children:
        assert not any(line.startswith("NOTIFY_SOCKET=") for line in environ(child.pid))
    assert systemd.silent
    stopped = await bot.stop()

    assert stopped.code == 0
    assert await systemd.heard() == (b"STOPPING=1", bot.pid)
    assert systemd.silent
