"""A byte stream to one peer on which every write moves on or ends the connection."""

import contextlib
import os
import socket
import struct
from collections.abc import Callable

import trio

READ_BYTES = 65_536
PIECE_BYTES = 16_384
"""What a peer must take within `write_s` to count as progress."""
LINGER_S = 2.0
"""Longest wait for a peer to read the last words and close its side."""
GOODBYE_S = 1.0
"""Longest time a cancelled connection holds up its server."""
IN_A_ROW = 16
"""So many writes may go through without a pause; then everybody else has a turn."""


class ConnectionGone(ConnectionError):
    """The peer left, broke off, or took nothing for too long. Nothing more can be sent."""


class Stalled(ConnectionGone):
    """The peer took nothing for too long."""


class BoundedStream:
    """Owns one transport and closes it. Writes go out whole and in order, whoever calls."""

    def __init__(self, transport: trio.abc.Stream, write_s: float) -> None:
        self._transport = transport
        self._plain = plain_socket(transport)
        self._write_s = write_s
        self._turn = trio.Lock()
        self._left = memoryview(b"")
        self._in_a_row = 0
        self.gone = False
        """Nothing more can be sent."""
        self.ended = False
        """Nothing more will come."""

    async def read(self) -> bytes:
        """Return what came next; empty when the peer has sent its last, or is gone."""
        if self.ended:
            await trio.lowlevel.checkpoint()
            return b""
        data = b""
        try:
            data = bytes(await self._transport.receive_some(READ_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone = True
        self.ended = not data
        return data

    async def write(
        self, render: Callable[[], bytes], last_words: Callable[[], bytes] | None = None
    ) -> None:
        """Send what `render` returns. It is called when this write has its turn.

        So what a protocol object has said and what is on the wire have one order, and a write
        cancelled before its turn has said nothing. One that is cancelled, or makes no progress
        for `write_s`, after that cuts the connection: part of a message is worse than none. Only
        a peer that begins to read at the last moment still gets the rest, and `last_words`.
        Raises `ConnectionGone`, and never goes on for long without a checkpoint, so a loop that
        only sends ends.
        """
        try:
            self._turn.acquire_nowait()  # one trip through the scheduler less for each write
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                self._left = memoryview(self._rendered(render))
            except ConnectionGone:
                await trio.lowlevel.checkpoint()
                raise
            await self._send(last_words)
        finally:
            self._turn.release()

    def _rendered(self, render: Callable[[], bytes]) -> bytes:
        if self.gone:
            raise ConnectionGone("the connection is closed")
        return render()

    async def _send(self, last_words: Callable[[], bytes] | None) -> None:
        try:
            self._push()
            if not self._left:
                await self._breathe()
            while self._left:
                goal = max(0, len(self._left) - PIECE_BYTES)
                with trio.fail_after(self._write_s):
                    while len(self._left) > goal:
                        await self._move_on()
        except trio.TooSlowError:
            await self._give_up(last_words)
            raise Stalled(f"the peer took nothing for {self._write_s:g} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            await self.cut()
            raise ConnectionGone("the peer has closed the connection") from error
        except BaseException:
            await self.cut()
            raise

    async def _breathe(self) -> None:
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW or self._plain is None:
            self._in_a_row = 0
            await trio.lowlevel.cancel_shielded_checkpoint()

    async def _move_on(self) -> None:
        """Wait until the peer takes more, and send it."""
        if self._plain is None:
            await self._transport.send_all(self._left[:PIECE_BYTES])
            self._left = self._left[PIECE_BYTES:]
        else:
            await trio.lowlevel.wait_writable(self._plain)
            self._push()

    def _push(self) -> None:
        """Send what the kernel takes at once: for most writes all there is to do."""
        if self._plain is not None and self._left:
            with contextlib.suppress(BlockingIOError):
                self._left = self._left[os.write(self._plain.fileno(), self._left) :]

    async def _give_up(self, last_words: Callable[[], bytes] | None) -> None:
        """Cut, unless the peer, in the last moment, takes the rest of what it was told."""
        if last_words is not None and self._plain is not None:
            with (
                trio.move_on_after(LINGER_S),
                contextlib.suppress(OSError, trio.ClosedResourceError),
            ):
                self._left = memoryview(bytes(self._left) + last_words())
                while self._left:
                    await self._move_on()
                self.gone = True
                return
        await self.cut()

    async def cut(self) -> None:
        """Close without a word, and have the kernel forget what the peer did not take."""
        self.gone = self.ended = True
        reset_on_close(self._transport)
        if self._plain is not None:
            self._plain.close()  # many at once, at a stop: no wait and no deadline for each
            return
        with trio.move_on_after(GOODBYE_S, shield=True):
            await trio.aclose_forcefully(self._transport)

    async def linger(self) -> None:
        """Say that nothing follows, and let the peer read: closing on unread data takes it back."""
        with trio.move_on_after(LINGER_S):
            if isinstance(self._transport, trio.abc.HalfCloseableStream) and not self.gone:
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._transport.send_eof()
            while await self.read():
                pass

    async def aclose(self) -> None:
        """Close politely, within `GOODBYE_S`, also when cancelled."""
        self.gone = self.ended = True
        if self._plain is not None:
            self._plain.close()
            return
        with (
            trio.move_on_after(GOODBYE_S, shield=True),
            contextlib.suppress(trio.BrokenResourceError),
        ):
            await self._transport.aclose()


def plain_socket(transport: trio.abc.Stream) -> trio.socket.SocketType | None:
    """Return the socket below a plain TCP connection, which takes bytes without a wait."""
    if isinstance(transport, trio.SocketStream) and os.name == "posix":
        return transport.socket
    return None


def reset_on_close(transport: trio.abc.Stream) -> None:
    """Make the coming close of a TCP connection a reset; other transports are left alone."""
    below: object = getattr(transport, "transport_stream", transport)  # that of TLS
    if isinstance(below, trio.SocketStream):
        with contextlib.suppress(OSError):  # closed already
            below.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
