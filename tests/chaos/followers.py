"""Who reads during a round: subscribers that come back at their cursor after every cut."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream

from tests.chaos.ledger import Json

SILENCE_S = 6.0
"""Longest silence that is waited out; these clients ask for a sign of life more often."""
PING_S = 1.5
GREET_S = 1.0
"""Longest opening; trio-websocket does not notice when it is cut off in the middle of it."""
AGAIN_S = 0.05


class Lost(Exception):
    """The connection is gone, or as good as gone."""


class Socket:
    """One authenticated socket."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self._socket = socket
        self.log_epoch = ""

    async def send(self, type_: str, **fields: object) -> None:
        """Send a frame. Raises Lost."""
        try:
            with trio.fail_after(SILENCE_S):
                await self._socket.send_message(json.dumps({"type": type_, **fields}))
        except (ConnectionClosed, trio.TooSlowError) as error:
            raise Lost from error

    async def next(self) -> Json:
        """Return the next frame. Raises Lost."""
        try:
            with trio.fail_after(SILENCE_S):
                frame: Json = json.loads(await self._socket.get_message())
        except (ConnectionClosed, trio.TooSlowError) as error:
            raise Lost from error
        return frame

    async def ping(self) -> None:
        """Ask for a pong now and then, until cancelled or lost."""
        while True:
            await trio.sleep(PING_S)
            await self.send("client.ping")


@asynccontextmanager
async def open_socket(url: str, token: str) -> AsyncIterator[Socket]:
    """Yield a socket that is ready. Raises Lost."""
    parts = urlsplit(url)
    try:
        with trio.fail_after(GREET_S):
            stream = await trio.open_tcp_stream(str(parts.hostname), parts.port or 80)
    except (OSError, trio.TooSlowError) as error:
        raise Lost from error
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield await _greeted(nursery, stream, parts.netloc, token)
            finally:
                nursery.cancel_scope.cancel()
    finally:
        await trio.aclose_forcefully(stream)


async def _greeted(
    nursery: trio.Nursery, stream: trio.SocketStream, host: str, token: str
) -> Socket:
    try:
        with trio.fail_after(GREET_S):
            raw = await wrap_client_stream(nursery, stream, host, "/v1/ws")
    except (HandshakeError, ConnectionClosed, trio.TooSlowError) as error:
        raise Lost from error
    socket = Socket(raw)
    await socket.send("client.auth", token=token)
    frame = await socket.next()
    if frame["type"] != "server.ready":
        raise Lost
    socket.log_epoch = frame["logEpoch"]
    return socket


class Follower:
    """Follows threads for ever; keeps every event it was sent, and notes what it should not see."""

    def __init__(
        self, name: str, token: str, urls: Sequence[str], threads: Sequence[str], random: Random
    ) -> None:
        self.name, self._token, self._urls, self._random = name, token, urls, random
        self.views: dict[str, list[Json]] = {thread_id: [] for thread_id in threads}
        self.faults: list[str] = []
        self.connects = 0
        self._epoch: str | None = None
        self._news = trio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async with open_socket(self._random.choice(self._urls), self._token) as socket:
                    await self._follow(socket)
            except* Lost:
                await trio.sleep(AGAIN_S)

    async def _follow(self, socket: Socket) -> None:
        self.connects += 1
        if self._epoch not in (None, socket.log_epoch):
            self.faults.append(f"the epoch {self._epoch} became {socket.log_epoch}")
        self._epoch = socket.log_epoch
        async with trio.open_nursery() as nursery:
            nursery.start_soon(socket.ping)
            for thread_id, view in self.views.items():
                await socket.send(
                    "client.subscribe", threadId=thread_id, after=len(view), logEpoch=self._epoch
                )
            while True:
                self._take(await socket.next())

    def _take(self, frame: Json) -> None:
        if frame["type"] in ("server.error", "server.unsubscribed"):
            self.faults.append(f"{self.name} was told {frame}")
        if frame["type"] != "server.events":
            return
        view = self.views[frame["threadId"]]
        for event in frame["events"]:
            if event["seq"] != len(view) + 1:
                self.faults.append(f"{self.name} was sent {event['seq']} behind {len(view)}")
            view.append(event)
        self._news.set()

    async def caught_up(self, thread_id: str, head: int) -> None:
        """Return once it has seen so much of a thread."""
        while len(self.views[thread_id]) < head:
            self._news = trio.Event()
            await self._news.wait()


class GrantsFollower:
    """Follows its own grants for ever, resuming where it was (9)."""

    def __init__(self, token: str, urls: Sequence[str], random: Random) -> None:
        self._token, self._urls, self._random = token, urls, random
        self.grant_seq: int | None = None
        self.roles: dict[str, str] = {}
        self.faults: list[str] = []
        self._news = trio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async with open_socket(self._random.choice(self._urls), self._token) as socket:
                    await self._follow(socket)
            except* Lost:
                await trio.sleep(AGAIN_S)

    async def _follow(self, socket: Socket) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(socket.ping)
            after = {} if self.grant_seq is None else {"after": self.grant_seq}
            await socket.send("client.subscribe_grants", **after)
            while True:
                self._take(await socket.next())

    def _take(self, frame: Json) -> None:
        match frame["type"]:
            case "server.grants_snapshot":
                if self.grant_seq is not None:
                    self.faults.append(f"a snapshot in place of {self.grant_seq + 1}")
                if not frame["more"]:
                    self.grant_seq = frame["grantSeq"]
                self._keep(frame["grants"])
            case "server.grant":
                if frame["grantSeq"] != (self.grant_seq or 0) + 1:
                    self.faults.append(f"grant {frame['grantSeq']} behind {self.grant_seq}")
                self.grant_seq = frame["grantSeq"]
                if frame["action"] == "revoked":
                    self.roles.pop(frame["grant"]["target"]["threadId"], None)
                else:
                    self._keep([frame["grant"]])
            case "server.error":
                self.faults.append(f"the grants stream was told {frame}")
            case _:
                return
        self._news.set()

    def _keep(self, grants: Sequence[Json]) -> None:
        for grant in grants:
            if grant["target"]["type"] == "thread":
                self.roles[grant["target"]["threadId"]] = grant["role"]

    async def caught_up(self, grant_seq: int) -> None:
        """Return once it has seen that change."""
        while (self.grant_seq or 0) < grant_seq:
            self._news = trio.Event()
            await self._news.wait()
