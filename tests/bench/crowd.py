"""A thousand sockets as cheap as they can be: one epoll, no parser, so the server is measured."""

import base64
import json
import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

LONGEST_S = 60.0


class Member:
    """One socket that follows one thread."""

    def __init__(self, plain: socket.socket) -> None:
        self.plain = plain
        self.rest = b""
        self.taken_bytes = 0


class Crowd:
    """Many sockets that look for marks in what they get."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._selector = selectors.DefaultSelector()

    def __len__(self) -> int:
        return len(self.members)

    def join(self, url: str, token: str, thread_id: str) -> None:
        """Have one more follow a thread from its head, caught up."""
        member = Member(dialled(url))
        member.plain.sendall(text_frame({"type": "client.auth", "token": token}))
        wait_for(member, b"server.ready")
        subscribe = {"type": "client.subscribe", "threadId": thread_id, "after": "head"}
        member.plain.sendall(text_frame(subscribe))
        wait_for(member, b"server.caught_up")
        self.add(member)

    def add(self, member: Member) -> None:
        """Watch a socket that is ready."""
        member.plain.setblocking(False)
        self.members.append(member)
        self._selector.register(member.plain, selectors.EVENT_READ, member)

    def wait_until_all_have(self, mark: bytes) -> list[float]:
        """Return the moments at which each of them had read `mark`."""
        seen: dict[int, float] = {}
        end = time.perf_counter() + LONGEST_S
        while len(seen) < len(self.members):
            if time.perf_counter() > end:
                raise TimeoutError(f"only {len(seen)} of {len(self)} got {mark!r}")
            for key, _ in self._selector.select(1.0):
                member: Member = key.data
                if take(member, mark):
                    seen[key.fd] = time.perf_counter()
        return sorted(seen.values())

    def close(self) -> None:
        self._selector.close()
        for member in self.members:
            member.plain.close()


def take(member: Member, mark: bytes) -> bool:
    """Read what is there; return whether the mark was in it."""
    data = member.plain.recv(1 << 18)
    if not data:
        raise ConnectionError(f"the server has closed a socket: {member.rest!r}")
    member.taken_bytes += len(data)
    data = member.rest + data
    member.rest = data[-64:]
    return mark in data


def wait_for(member: Member, mark: bytes) -> None:
    member.plain.settimeout(LONGEST_S)
    while not take(member, mark):
        pass


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Yield an empty crowd, and close its sockets."""
    everybody = Crowd()
    try:
        yield everybody
    finally:
        everybody.close()


def dialled(url: str, receive_bytes: int | None = None) -> socket.socket:
    """Return a socket after the handshake; `receive_bytes` bounds what the kernel takes for it."""
    parts = urlsplit(url)
    plain = socket.socket()
    if receive_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    plain.settimeout(LONGEST_S)
    plain.connect((parts.hostname, parts.port))
    key = base64.b64encode(b"0123456789abcdef").decode()
    head = [
        f"GET {parts.path}/v1/ws HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    ]
    plain.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += plain.recv(4096)
    if b" 101 " not in answer:
        raise ConnectionError(answer.decode())
    return plain


def text_frame(fields: Mapping[str, object]) -> bytes:
    """Return a client's frame; masked with zeros, which is allowed and costs nothing."""
    text = json.dumps(fields).encode()
    short = len(text) < 126
    length = bytes([0x80 | len(text)]) if short else b"\xfe" + len(text).to_bytes(2, "big")
    return b"\x81" + length + b"\0\0\0\0" + text
