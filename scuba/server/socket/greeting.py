"""The first frame: who is on the socket, within ten seconds, or it is closed (8.2)."""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.config import ServerConfig
from scuba.server.login import Logins, Scope, Visit, visit
from scuba.server.socket.frames import read_frame
from scuba.server.store import Caller

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Refused(Exception):
    """The socket closes with this code; `gone` when it has closed by itself."""

    def __init__(self, code: int, reason: str, *, gone: bool = False) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason, self.gone = code, reason, gone


class Guest(msgspec.Struct, frozen=True):
    """Who came, from which of its instances, on which connection."""

    caller: Caller
    instance_id: str | None
    connection_id: str


async def greet(scope: Scope, receive: Receive, logins: Logins, config: ServerConfig) -> Guest:
    """Return who authenticated. Raises Refused with the close code."""
    frame: wire.ClientAuth | None = None
    with trio.move_on_after(config.auth_s):
        frame = await _first_frame(receive)
    if frame is None:
        raise Refused(wire.Close.UNAUTHENTICATED, "no client.auth came in time")
    _check_version(frame.protocol)
    connection_id = f"c_{secrets.token_hex(6)}"
    shown = visit(scope, request_id=connection_id, trusted_proxy=config.trusted_proxy)
    try:
        caller = await logins.caller(_completed(shown, frame))
    except Problem as error:
        raise Refused(_CODES.get(error.status, wire.Close.FAULT), error.detail) from None
    return Guest(caller, frame.instance_id, connection_id)


def _completed(shown: Visit, frame: wire.ClientAuth) -> Visit:
    """Return what the upgrade showed, with what the frame says instead (8.2)."""
    return msgspec.structs.replace(
        shown,
        token=frame.token or shown.token,
        acts_as=frame.principal_id or shown.acts_as,
    )


_CODES = {
    401: wire.Close.UNAUTHENTICATED,
    403: wire.Close.REFUSED,
    429: wire.Close.TOO_MANY,
}


async def _first_frame(receive: Receive) -> wire.ClientAuth:
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise Refused(wire.Close.NORMAL, "left", gone=True)
    text = message.get("text")
    try:
        frame = read_frame(text) if text is not None else None
    except Problem:
        frame = None
    if not isinstance(frame, wire.ClientAuth):
        raise Refused(wire.Close.UNAUTHENTICATED, "the first frame must be client.auth")
    return frame


def _check_version(wanted: str | None) -> None:
    """A client may demand a minor version; a server that has less says so (15)."""
    major, minor = wire.PROTOCOL.split(".")
    asked_major, _, asked_minor = (wanted or wire.PROTOCOL).partition(".")
    number = asked_minor if asked_minor.isdecimal() and len(asked_minor) < 9 else "999999999"
    if asked_major != major or int(number) > int(minor):
        raise Refused(wire.Close.VERSION, f"this server speaks {wire.PROTOCOL}")
