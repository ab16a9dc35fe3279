"""What a request head must be, and what an app sees of it. Pure; a bad one raises `Problem`."""

import base64
import binascii
import re
from dataclasses import dataclass
from urllib.parse import unquote

import h11

from scuba.errors import Problem
from scuba.listener.asgi import Scope
from scuba.listener.config import ListenerConfig


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The two ends of a connection, as the app is told."""

    client: tuple[str, int] | None = None
    server: tuple[str, int] | None = None
    secure: bool = False


def check_head(request: h11.Request, config: ListenerConfig) -> None:
    """Raise `Problem` for a head that is too big, announces too much, or is of another version."""
    fields = sum(len(name) + len(value) + 4 for name, value in request.headers)
    if len(request.method) + len(request.target) + fields > config.header_bytes:
        raise headers_too_large(config)
    if request.http_version not in (b"1.0", b"1.1"):
        raise Problem(505, "http_version", "this server speaks HTTP/1.1")
    limit = body_limit(request, config)
    if content_length(request) > limit:
        raise body_too_large(limit)


def http_scope(request: h11.Request, ends: Ends) -> Scope:
    """Return the scope of an HTTP request."""
    path, query = split_target(request.method, request.target)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": request.http_version.decode("ascii"),
        "method": request.method.decode("ascii").upper(),
        "scheme": "https" if ends.secure else "http",
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
        "client": ends.client,
        "server": ends.server,
        "extensions": {},
    }


def websocket_scope(request: h11.Request, ends: Ends) -> Scope:
    """Return the scope of a WebSocket."""
    scope = http_scope(request, ends)
    del scope["method"]
    scope["type"] = "websocket"
    scope["scheme"] = "wss" if ends.secure else "ws"
    scope["subprotocols"] = tokens(request, b"sec-websocket-protocol")
    extensions = ("websocket.http.response", "scuba.websocket.ping", "scuba.websocket.frame")
    scope["extensions"] = {name: {} for name in extensions}
    return scope


def split_target(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request target, which may be a whole URL."""
    if target == b"*" and method == b"OPTIONS":
        return target, b""
    if target.lower().startswith((b"http://", b"https://")):
        _, _, rest = target.partition(b"//")
        authority = re.match(rb"[^/?]*", rest)
        target = rest[authority.end() if authority else 0 :]
        target = target if target.startswith(b"/") else b"/" + target
    if not target.startswith(b"/"):
        raise Problem(400, "bad_request", "the request target is neither a path nor a URL")
    path, _, query = target.partition(b"?")
    return path, query


def is_upgrade(request: h11.Request) -> bool:
    """Return whether the client asks for a WebSocket."""
    return "websocket" in [token.lower() for token in tokens(request, b"upgrade")]


def websocket_key(request: h11.Request) -> bytes:
    """Return the client's key. Raises `Problem` for a bad opening handshake (RFC 6455, 4.2.1)."""
    if request.method != b"GET" or request.http_version != b"1.1":
        raise bad_handshake("it must be a GET of HTTP/1.1")
    if "upgrade" not in [token.lower() for token in tokens(request, b"connection")]:
        raise bad_handshake("`Connection: Upgrade` is missing")
    match tokens(request, b"sec-websocket-version"):
        case ["13"]:
            pass
        case []:
            raise bad_handshake("`Sec-WebSocket-Version` is missing")
        case _:
            raise Problem(426, "upgrade_required", "only WebSocket version 13 is served")
    keys = [value for name, value in request.headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not is_key(keys[0]):
        raise bad_handshake("`Sec-WebSocket-Key` must be 16 bytes in base64, once")
    return keys[0]


def is_key(value: bytes) -> bool:
    """Return whether `value` is 16 bytes in base64."""
    try:
        return len(base64.b64decode(value, validate=True)) == 16
    except binascii.Error:
        return False


def tokens(request: h11.Request, field: bytes) -> list[str]:
    """Return the comma-separated values of a header field, over all its lines."""
    lines = [value.decode("latin-1") for name, value in request.headers if name == field]
    return [token for line in lines for part in line.split(",") if (token := part.strip())]


def content_length(request: h11.Request) -> int:
    """Return what the request announces, in bytes; 0 if it does not."""
    return next((int(v) for name, v in request.headers if name == b"content-length"), 0)


def refusal(error: h11.RemoteProtocolError, config: ListenerConfig) -> Problem:
    """Return what to answer to bytes that are not HTTP. They are not repeated: who knows whose."""
    match error.error_status_hint:
        case 431:
            return headers_too_large(config)
        case 501:
            return Problem(501, "not_implemented", "only `chunked` is known as transfer encoding")
        case _:
            return Problem(400, "bad_request", "this is not a valid HTTP/1.1 request")


def headers_too_large(config: ListenerConfig) -> Problem:
    """Return the answer to a head beyond the limit."""
    detail = f"request line and headers together may have {config.header_bytes} bytes"
    return Problem(431, "headers_too_large", detail)


def body_limit(request: h11.Request, config: ListenerConfig) -> int:
    """Return how many bytes the body of this request may have."""
    path, _ = split_target(request.method, request.target)
    return config.body_limit(path)


def body_too_large(limit: int) -> Problem:
    """Return the answer to a body beyond the limit."""
    return Problem(413, "body_too_large", f"a body may have {limit} bytes")


def bad_handshake(what: str) -> Problem:
    """Return the answer to a request for a WebSocket that is none."""
    return Problem(400, "bad_request", f"bad WebSocket handshake: {what}")
