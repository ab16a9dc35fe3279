"""What a hostile client may send on a socket, from a seed: texts, frames, streams, upgrades."""

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FIN = 0x80
FRAME_BYTES = 65_536
"""The most that the server takes."""

BASES: list[dict[str, Any]] = [
    {"type": "client.auth", "token": "bubble_user_x", "instanceId": "i", "protocol": "1.0"},
    {"type": "client.subscribe", "threadId": "THREAD", "after": 0, "logEpoch": "e-1", "ref": "r"},
    {"type": "client.subscribe", "threadId": "THREAD", "after": "head"},
    {"type": "client.unsubscribe", "threadId": "THREAD", "ref": "r"},
    {"type": "client.subscribe_grants", "after": 1, "ref": "g"},
    {"type": "client.cursor", "threadId": "THREAD", "consumer": "default", "seq": 1},
    {"type": "client.ping", "ref": "p"},
]
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**53 - 1, -0.0, "", " ", "client.ping", "head", "é\u202e\U0001f600"),
    *([], {}, [[]], {"": {}}, {"type": "client.ping"}, ["client.ping"], "x" * 3_000, "9" * 400),
    *("thr_none", "../..", "a/b?c#d", "%00", "' OR 1=1 --", {"$ne": None}, list(range(300))),
]
RAWS = [
    *("1e999", "-1e999", "9" * 40, "2e400", "NaN", "Infinity", "-", "01", "+1", "1.", ".5", "0x10"),
    *('"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"\\', "'a'", '"\t"', '"\x00"'),
    *("[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, "[" * 5_000, "undefined", "//", "tru"),
]
WHOLE = [
    *("", " ", "null", "[]", '"client.ping"', "7", "{", "}", "{}{}", "\ufeff{}", "[" * 30_000),
    *(
        '{"type":"client.ping"}{"type":"client.ping"}',
        '{"type":"client.ping",}',
        "{}" + " " * 9_000,
    ),
    *('{"type":"client.ping","type":"client.ping"}', '{"type":7}', '{"type":null}', '{"ref":"x"}'),
    *('{"type":"client.Ping"}', '{"type":"server.pong"}', '{"TYPE":"client.ping"}', "{\x00}"),
]


def evil_text(chance: random.Random, thread_id: str) -> str:
    """Return a frame of the protocol with something wrong, or at least odd, about it."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.choice(WHOLE)
    frame = dict(chance.choice(BASES))
    if chance.randrange(3) and "threadId" in frame:
        frame["threadId"] = thread_id
    name = chance.choice(list(frame))
    if kind in (1, 2, 3):
        frame[name] = chance.choice(VALUES)
    elif kind == 4:
        del frame[name]
    elif kind == 5:
        frame[chance.choice([name.upper(), name + " ", "", "__proto__", "é"])] = frame.pop(name)
    elif kind == 6:
        frame["more"] = chance.choice(VALUES)
    text = json.dumps(frame, ensure_ascii=bool(chance.randrange(2)))
    if kind == 7:
        return text.replace(json.dumps(frame[name]), chance.choice(RAWS), 1)
    if kind == 8:
        return text[:-1] + f", {json.dumps(name)}: {json.dumps(frame[name])}}}"
    if kind == 9:
        at, gone = chance.randrange(len(text)), chance.randrange(4)
        return text[:at] + chance.choice(['"', "\\", "}", "{", ",", ":", ""]) + text[at + gone :]
    return text


def frame(payload: bytes, head: int = FIN | TEXT, *, masked: bool = True) -> bytes:
    """Return a client's WebSocket frame. The mask is zero: it changes nothing, and is one."""
    size, bit = len(payload), 0x80 if masked else 0
    if size < 126:
        told = bytes((head, bit | size))
    elif size < 65_536:
        told = bytes((head, bit | 126)) + struct.pack("!H", size)
    else:
        told = bytes((head, bit | 127)) + struct.pack("!Q", size)
    return told + (b"\0\0\0\0" if masked else b"") + payload


@dataclass(frozen=True)
class Stream:
    """Bytes after a good `client.auth`, and the code that the server must close with."""

    name: str
    data: Callable[[random.Random], bytes]
    code: int | None
    """None: the peer is gone in the middle, and nobody is owed a word."""


GOOD = frame(b'{"type":"client.ping","ref":"last"}')
BAD = frame(b'{"type":"client.nothing"}')


def _junk(chance: random.Random, most: int = 400) -> bytes:
    return chance.randbytes(chance.randint(1, most))


def _closing(code: int, reason: bytes = b"") -> bytes:
    return frame(struct.pack("!H", code) + reason, FIN | CLOSE)


STREAMS = [
    Stream("three invalid frames in a row", lambda _: BAD * 3, 4400),
    Stream("a binary frame", lambda c: frame(_junk(c), FIN | BINARY), 4400),
    Stream("an empty binary frame", lambda _: frame(b"", FIN | BINARY), 4400),
    Stream("text that is no UTF-8", lambda c: frame(b'{"a":"\xff' + _junk(c)), 1007),
    Stream("text that ends within a character", lambda _: frame(b'"\xc3'), 1007),
    Stream("a surrogate in UTF-8", lambda _: frame(b'"\xed\xa0\x80"'), 1007),
    Stream("bad UTF-8 in a fragment", lambda _: frame(b"\xff", TEXT) + frame(b"", FIN), 1007),
    Stream("a frame without a mask", lambda c: frame(_junk(c), masked=False), 1002),
    Stream("the bit of compression", lambda c: frame(_junk(c), FIN | 0x40 | TEXT), 1002),
    Stream("a reserved bit", lambda c: frame(_junk(c), FIN | 0x20 | TEXT), 1002),
    Stream("another reserved bit", lambda c: frame(b"{}", FIN | 0x10 | TEXT), 1002),
    Stream("a reserved opcode", lambda c: frame(b"{}", FIN | c.choice([3, 4, 5, 6, 7])), 1002),
    Stream("a reserved control", lambda c: frame(b"", FIN | c.choice([11, 12, 13, 14, 15])), 1002),
    Stream("a ping that is too long", lambda _: frame(b"x" * 126, FIN | PING), 1002),
    Stream("a ping in fragments", lambda _: frame(b"x", PING), 1002),
    Stream("a close in fragments", lambda _: frame(b"", CLOSE), 1002),
    Stream("a continuation of nothing", lambda _: frame(b"{}", FIN), 1002),
    Stream("a frame within a message", lambda _: frame(b"{", TEXT) + GOOD, 1002),
    Stream("binary within a text", lambda _: frame(b"{", TEXT) + frame(b"", FIN | BINARY), 1002),
    Stream("a length beyond all bounds", lambda _: b"\x81\xff" + b"\xff" * 8 + b"\0" * 4, 1002),
    Stream("a close of one byte", lambda _: frame(b"\x03", FIN | CLOSE), 1002),
    Stream("a close with no such code", lambda c: _closing(c.choice([0, 999, 1005, 1006])), 1002),
    Stream("a close whose reason is no text", lambda _: _closing(1000, b"\xff\xfe"), 1007),
    Stream("one byte too many", lambda _: frame(b"x" * (FRAME_BYTES + 1)), 1009),
    Stream("too much in fragments", lambda _: frame(b"x" * 40_000, TEXT) * 1 + _rest(), 1009),
    Stream("a long frame of whitespace", lambda _: frame(b" " * 300_000), 1009),
    Stream("a proper close", lambda _: _closing(1000), 1000),
    Stream("a close of its own code", lambda _: _closing(4000, b"enough"), 4000),
    Stream("a close without a code", lambda _: frame(b"", FIN | CLOSE), 1005),
    Stream("half a head", lambda _: b"\x81", None),
    Stream("half a mask", lambda _: b"\x81\x85\x00", None),
    Stream("half a payload", lambda c: frame(_junk(c, 300) + b"xx")[:-1], None),
    Stream("a fragment and nothing", lambda _: frame(b'{"type":', TEXT), None),
    Stream("a ping storm", lambda c: frame(_junk(c, 120), FIN | PING) * 200, None),
    Stream("pongs that nobody asked for", lambda c: frame(_junk(c, 120), FIN | PONG) * 200, None),
    Stream("many empty fragments", lambda _: frame(b"{", TEXT) + frame(b"", 0) * 500, None),
]


def _rest() -> bytes:
    return frame(b"x" * 40_000, FIN)


FIRST_FRAMES = [
    *(b"", b"{}", b"not json", b"[]", b'{"type":"client.ping"}', b'{"type":"client.auth"}'),
    *(b'{"type":"client.auth","token":""}', b'{"type":"client.auth","token":"bubble_user_x"}'),
    *(
        b'{"type":"client.auth","token":7}',
        b'{"type":"client.auth","token":"' + b"x" * 9_000 + b'"}',
    ),
    *(b'{"type":"client.auth","type":"client.auth"}', b"[" * 9_000, b'{"token":"t"}'),
]
"""Each in place of a good `client.auth`; the socket closes with 4401."""

_KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
_UPGRADE = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", _KEY]


def request(line: str, *fields: str, body: bytes = b"") -> bytes:
    """Return a request as it stands on the wire."""
    return "\r\n".join([line, "Host: 127.0.0.1", *fields, "", ""]).encode("latin-1") + body


def upgrade(*fields: str, path: str = "/v1/ws") -> bytes:
    """Return a good upgrade, with more fields."""
    return request(f"GET {path} HTTP/1.1", *_UPGRADE, *fields)


UPGRADES: list[tuple[bytes, set[int]]] = [
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE[:3]), {400}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE[:2], _KEY), {400, 426}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE[:2], "Sec-WebSocket-Version: 8", _KEY), {426}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE[:3], "Sec-WebSocket-Key: short"), {400}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE, _KEY), {400, 101}),
    (request("POST /v1/ws HTTP/1.1", *_UPGRADE, "Content-Length: 0"), {400, 404, 405}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE, "Content-Length: 2", body=b"hi"), {400}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE, "Origin: https://evil.example"), {403}),
    (request("GET /v1/ws HTTP/1.1"), {404, 405, 426}),
    (request("GET /v1/none HTTP/1.1", *_UPGRADE), {403, 404}),
    (request("GET /v1/ws HTTP/9.9", *_UPGRADE), {400, 505}),
    (request("GET /v1/ws HTTP/1.0", *_UPGRADE), {400, 404, 426}),
    (request("GET  /v1/ws HTTP/1.1", *_UPGRADE), {400}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE, "A B: c"), {400}),
    (request("GET /v1/ws HTTP/1.1", *_UPGRADE, "X-Long: " + "x" * 20_000), {431}),
    (request("GET /" + "a" * 20_000 + " HTTP/1.1", *_UPGRADE), {431, 414}),
    (request("GET /v1/ws HTTP/1.1", "Transfer-Encoding: gzip", *_UPGRADE), {400, 501}),
    (b"GET /v1/ws HTTP/1.1\r\nHost: evil.example\r\n\r\n", {403}),
    (b"GET /v1/ws HTTP/1.1\r\n\r\n", {400}),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n", {400}),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    (b"\0" * 600 + b"\r\n\r\n", {400}),
]
"""Upgrades that are none, and the statuses that may answer them."""
