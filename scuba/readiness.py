"""Telling a supervisor that all is ready: once, by each way that it asked for."""

import os
import socket
import stat
from collections.abc import MutableMapping
from pathlib import Path

import msgspec

from scuba.errors import UsageError
from scuba.local import write_private
from scuba.wire import Struct

NOTIFY_SOCKET = "NOTIFY_SOCKET"


class Ready(Struct, frozen=True, kw_only=True):
    """What the ready file of a bot or a server says."""

    url: str
    pid: int
    principal_id: str | None = None


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervisor wants to hear of it."""

    file: Path | None = None
    """Written, for its owner only."""
    fd: int | None = None
    """Gets a line end and is closed, as s6 wants it."""
    socket: str | None = None
    """Where systemd listens."""

    def tell(self, facts: Struct) -> None:
        """Say that all is ready. Raises ConfigError when the file cannot be written."""
        if self.file is not None:
            write_private(self.file, facts)
        if self.fd is not None:
            _tell_fd(self.fd)
        if self.socket is not None:
            _tell_socket(self.socket, b"READY=1")

    def stopping(self) -> None:
        """Say that a stop has begun."""
        if self.socket is not None:
            _tell_socket(self.socket, b"STOPPING=1")


def readiness(
    environ: MutableMapping[str, str], *, file: Path | None = None, fd: int | None = None
) -> Readiness:
    """Return the ways that were asked for. Raises UsageError when `fd` is nothing to write to.

    What systemd says is taken out of the environment: it is no child's business.
    """
    if fd is not None:
        _check_fd(fd)
    return Readiness(file=file, fd=fd, socket=environ.pop(NOTIFY_SOCKET, None) or None)


def _check_fd(fd: int) -> None:
    try:
        kind = os.fstat(fd).st_mode
    except OSError:
        raise UsageError(
            f"--notify-fd {fd}: no such file descriptor is open",
            "leave it out, or let the supervisor open it (s6: the file notification-fd)",
        ) from None
    if fd <= 2 or not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or stat.S_ISREG(kind)):
        raise UsageError(f"--notify-fd {fd}: not a pipe", "give the number in notification-fd")
    os.set_inheritable(fd, False)


def _tell_fd(fd: int) -> None:
    try:
        os.write(fd, b"\n")
    except OSError:  # whoever asked has gone, which is no reason to stop
        pass
    finally:
        os.close(fd)


def _tell_socket(address: str, words: bytes) -> None:
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto(words, name)
    except OSError:
        return  # as above
