"""A Bubble server of a few lines over memory streams, which does on each frame what it is told.

Not a server: no rights, no storage, and nothing that the test did not ask for. What it is good
for: it may be wrong in every way, and it works under the mock clock.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio
from trio.testing import memory_stream_pair
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from scuba.bubble.address import Address

Json = dict[str, Any]
PRINCIPAL = "bot-research"


class Cut(Exception):
    """The peer hangs up without a word."""


def event(thread_id: str, seq: int, text: str = "ok") -> Json:
    """Return an envelope as it stands on the wire."""
    chunk = {"type": "text-delta", "id": "t", "delta": text}
    return {
        "id": f"evt_{seq}",
        "threadId": thread_id,
        "seq": seq,
        "ts": "2026-11-30T12:00:00.000Z",
        "principalId": "user-ada",
        "type": "message_part",
        "runId": f"msg_{seq}",
        "payload": {"chunk": chunk},
        "bareLeft": 0,
    }


class Peer:
    """Answers as a good server would, unless `on` says otherwise for a type of frame."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.on: dict[str, Callable[[Talk, Json], Awaitable[None]]] = {}
        self.logs: dict[str, list[Json]] = {}
        self.grants: list[Json] = []
        self.grant_seq = 0
        self.log_epoch = "e-1"
        self.heartbeat_s = 20.0
        self.heard: list[Json] = []
        self.talks: list[Talk] = []
        self.dials = 0
        self.refuses_dials = False
        self.sent = 0
        self.cut_after: int | None = None
        """Hang up once, when so many frames were sent."""

    async def dial(self, address: Address, context: ssl.SSLContext | None) -> trio.abc.Stream:
        """Return the client's end of a new connection."""
        await trio.lowlevel.checkpoint()
        self.dials += 1
        if self.refuses_dials:
            raise ConnectionRefusedError(111, "Connection refused")
        client, server = memory_stream_pair()
        self._nursery.start_soon(self._serve, server)
        return client

    def add(self, thread_id: str, count: int = 1, text: str = "ok") -> None:
        """Append events to a log, unheard by anybody."""
        log = self.logs.setdefault(thread_id, [])
        log += [event(thread_id, len(log) + 1 + index, text) for index in range(count)]

    def heard_of(self, kind: str) -> list[Json]:
        """Return the frames of one type that came so far."""
        return [frame for frame in self.heard if frame["type"] == kind]

    async def _serve(self, stream: trio.abc.Stream) -> None:
        async with trio.open_nursery() as nursery:
            try:
                request = await wrap_server_stream(nursery, stream)
                web_socket = await request.accept(subprotocol="bubble.v1")
                talk = Talk(self, web_socket)
                self.talks.append(talk)
                while True:
                    frame = msgspec.json.decode(await web_socket.get_message())
                    self.heard.append(frame)
                    await self.on.get(frame["type"], Peer._answer)(talk, frame)
            except (ConnectionClosed, Cut):
                await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()

    @staticmethod
    async def _answer(talk: "Talk", frame: Json) -> None:
        match frame["type"]:
            case "client.auth":
                await talk.ready()
            case "client.subscribe":
                await talk.subscribed(frame)
            case "client.subscribe_grants":
                await talk.snapshot(frame)
            case "client.unsubscribe":
                await talk.send("server.unsubscribed", threadId=frame["threadId"], reason="client")
            case _:
                pass


class Talk:
    """One connection, seen from the server."""

    def __init__(self, peer: Peer, web_socket: WebSocketConnection) -> None:
        self.peer, self.web_socket = peer, web_socket

    async def send(self, kind: str, **fields: object) -> None:
        """Send a frame, or hang up if its turn has come."""
        message = msgspec.json.encode({"type": kind, **fields}).decode()
        await self.web_socket.send_message(message)
        self.peer.sent += 1
        if self.peer.sent == self.peer.cut_after:
            raise Cut

    async def close(self, code: int, reason: str = "on order") -> None:
        await self.web_socket.aclose(code, reason)

    async def ready(self, **fields: object) -> None:
        usual = {
            "connectionId": "c_1",
            "principal": {"principalId": PRINCIPAL, "kind": "bot"},
            "logEpoch": self.peer.log_epoch,
            "protocol": "1.0",
            "heartbeatSeconds": self.peer.heartbeat_s,
            "limits": {},
            "otherInstances": 0,
            "time": "2026-11-30T12:00:00.000Z",
        }
        await self.send("server.ready", **(usual | fields))

    async def subscribed(self, frame: Json, step: int = 2) -> None:
        thread_id, after = frame["threadId"], frame["after"]
        log = self.peer.logs.get(thread_id, [])
        head = len(log)
        await self.send(
            "server.subscribed", threadId=thread_id, after=after, lastSeq=head, ref=frame["ref"]
        )
        for begin in range(after, head, step):
            await self.events(thread_id, log[begin : begin + step])
        await self.send("server.caught_up", threadId=thread_id, seq=head)

    async def events(self, thread_id: str, events: list[Json]) -> None:
        await self.send("server.events", threadId=thread_id, events=events)

    async def snapshot(self, frame: Json) -> None:
        await self.send(
            "server.grants_snapshot",
            grantSeq=self.peer.grant_seq,
            grants=self.peer.grants,
            more=False,
            ref=frame["ref"],
        )
