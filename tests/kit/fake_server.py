"""Our own server on loopback with faults on order: what clients are tested against."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import trio

from actors.events import Role
from scuba import wire
from scuba.listener import (
    App,
    Message,
    Receive,
    Scope,
    Send,
    open_listener,
    serve_asgi,
)
from scuba.server import ServerConfig, make_app
from scuba.server.serve import listener_config
from scuba.server.store import SYSTEM, Caller, Change, Committed, Store, open_store
from tests.kit import store as fresh


class Who(msgspec.Struct, frozen=True):
    """Somebody with a token."""

    caller: Caller
    token: str

    @property
    def id(self) -> str:
        return self.caller.principal.principal_id


class Fault(msgspec.Struct):
    """What happens to the next `times` requests that fit."""

    method: str
    path_end: str
    times: int
    answer: tuple[int, bytes, dict[str, str]] | None
    """None: the request is served, and the connection cut in place of the answer."""

    def fits(self, scope: Scope) -> bool:
        ends = str(scope["path"]).endswith(self.path_end)
        return self.times > 0 and scope["method"] == self.method and ends


class Faults:
    """An app round an app that misbehaves when told to."""

    def __init__(self, inner: App) -> None:
        self._inner = inner
        self.faults: list[Fault] = []
        self.delay_s = 0.0
        self.served: list[tuple[str, str]] = []
        self.sockets: set[Send] = set()
        self.socket_left = trio.Event()
        self.flowing = trio.Event()
        self.flowing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        self.served.append((scope["method"], scope["path"]))
        if self.delay_s:
            await trio.sleep(self.delay_s)
        fault = next((fault for fault in self.faults if fault.fits(scope)), None)
        if fault is None:
            await self._inner(scope, receive, send)
            return
        fault.times -= 1
        if fault.answer is None:
            await self._serve_and_cut(scope, receive, send)
        else:
            await self._answer(fault.answer, send)

    async def _answer(self, answer: tuple[int, bytes, dict[str, str]], send: Send) -> None:
        status, body, headers = answer
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    async def _serve_and_cut(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def swallow(message: Message) -> None:
            await trio.lowlevel.checkpoint()

        await self._inner(scope, receive, swallow)
        # An answer that is begun and not ended makes the listener cut the connection.
        start = {"type": "http.response.start", "status": 200}
        await send({**start, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"", "more_body": True})

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def flowing_send(message: Message) -> None:
            await self.flowing.wait()
            await send(message)

        async def flowing_receive() -> Message:
            message = await receive()
            await self.flowing.wait()
            return message

        self.sockets.add(send)
        try:
            await self._inner(scope, flowing_receive, flowing_send)
        finally:
            self.sockets.discard(send)
            self.socket_left.set()
            self.socket_left = trio.Event()


class FakeServer:
    """A server that is up, with a user, a bot of that user, and switches."""

    user: Who
    bot: Who

    def __init__(self, store: Store, config: ServerConfig, nursery: trio.Nursery) -> None:
        self.store, self.config = store, config
        self._nursery = nursery
        self._faults = Faults(make_app(store, config))
        self._life: trio.CancelScope | None = None
        self._logs: defaultdict[str, list[wire.Envelope]] = defaultdict(list)
        self._news = trio.Event()
        store.listen(self._hear)
        self.port = config.port
        self.url = ""

    # --- up and down ---------------------------------------------------------------------------

    async def come_up(self) -> None:
        """Listen, on the same port as before if there was one."""
        self.url = await self._nursery.start(self._serve)

    def go_down(self) -> None:
        """Stop listening and cut every connection; the store lives on."""
        if self._life is not None:
            self._life.cancel()

    async def _serve(self, *, task_status: trio.TaskStatus[str]) -> None:
        with trio.CancelScope() as self._life:
            listeners = await open_listener("127.0.0.1", self.port)
            self.port = int(listeners[0].socket.getsockname()[1])
            task_status.started(f"http://127.0.0.1:{self.port}{self.config.prefix}")
            limits = listener_config(self.config)
            await serve_asgi(self._faults, listeners, limits, stop=trio.Event())

    # --- faults --------------------------------------------------------------------------------

    @property
    def served(self) -> list[tuple[str, str]]:
        """Method and path of each HTTP request so far, those that were failed included."""
        return self._faults.served

    @property
    def delay_s(self) -> float:
        """How long each HTTP request waits before it is looked at; settable."""
        return self._faults.delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        self._faults.delay_s = seconds

    def fail_next_append(
        self, status: int, code: str, *, retry_after: float | str | None = None, times: int = 1
    ) -> None:
        """Refuse appends without looking at them."""
        self.fail_next("POST", "/events", status, code, retry_after=retry_after, times=times)

    def fail_next(
        self,
        method: str,
        path_end: str,
        status: int,
        code: str,
        *,
        retry_after: float | str | None = None,
        times: int = 1,
    ) -> None:
        """Refuse requests of that method whose path ends so."""
        problem = {"type": "about:blank", "title": code, "detail": "on order"}
        body = msgspec.json.encode({**problem, "status": status, "code": code})
        headers = {"content-type": "application/problem+json"}
        if retry_after is not None:
            headers["retry-after"] = str(retry_after)
        answer = (status, body, headers)
        self._faults.faults.append(Fault(method, path_end, times, answer))

    def drop_after_commit(self, times: int = 1) -> None:
        """Take appends, commit them, and cut the connection in place of the receipt."""
        self._faults.faults.append(Fault("POST", "/events", times, None))

    def stall_socket(self) -> None:
        """Have every socket say nothing and hear nothing until `resume_socket`."""
        self._faults.flowing = trio.Event()

    def resume_socket(self) -> None:
        """End `stall_socket`: what was held back flows now."""
        self._faults.flowing.set()

    @property
    def socket_count(self) -> int:
        """How many sockets are open."""
        return len(self._faults.sockets)

    async def sockets_left(self, count: int) -> None:
        """Return when no more than so many are open."""
        while self.socket_count > count:
            await self._faults.socket_left.wait()

    async def close_sockets(self, code: int, reason: str = "on order") -> None:
        """Close every socket with that code."""
        for send in list(self._faults.sockets):
            await send({"type": "websocket.close", "code": code, "reason": reason})

    # --- people and threads --------------------------------------------------------------------

    async def make_user(self, name: str) -> Who:
        """Return a new user."""
        return await self._make(SYSTEM, wire.NewPrincipal(principal_id=name, kind="user"))

    async def make_bot(self, name: str, owner: Who | None = None) -> Who:
        """Return a new bot of `owner`, or of the ready-made user."""
        new = wire.NewPrincipal(principal_id=name, kind="bot")
        return await self._make((owner or self.user).caller, new)

    async def _make(self, by: Caller, new: wire.NewPrincipal) -> Who:
        _, created = await self.store.create_principal(by, new)
        token = created.token
        if token is None:
            token = await self.store.mint_token(SYSTEM, new.principal_id, wire.NewToken())
        assert token.token is not None
        caller = await self.store.identify(token.token)
        assert caller is not None
        return Who(caller, token.token)

    async def make_thread(
        self, *members: Who, title: str | None = None, owner: Who | None = None
    ) -> str:
        """Return the id of a new thread of the user's, with these members on it."""
        by = (owner or self.user).caller
        _, thread = await self.store.create_thread(by, wire.NewThread(title=title))
        for member in members:
            await self.grant(thread.thread_id, member)
        return thread.thread_id

    async def grant(self, thread_id: str, to: Who, role: Role = "member") -> None:
        """Give a role on a thread."""
        target = wire.Target(type="thread", thread_id=thread_id)
        new = wire.NewGrant(target=target, principal_id=to.id, role=role)
        await self.store.put_grant(SYSTEM, new)

    async def revoke(self, thread_id: str, whose: Who) -> None:
        """Take a role away."""
        target = wire.Target(type="thread", thread_id=thread_id)
        await self.store.delete_grant(SYSTEM, target, whose.id)

    async def say(self, thread_id: str, text: str, who: Who | None = None) -> int:
        """Append a bare message; return the seq of its first event."""
        run_id = f"msg_{uuid4().hex}"
        chunks = [
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": text},
            {"type": "text-end", "id": "t"},
        ]
        parts = [
            {"type": "message_part", "runId": run_id, "payload": {"chunk": chunk}}
            for chunk in chunks
        ]
        return (await self.append(thread_id, parts, who)).events[0].seq

    async def append(
        self, thread_id: str, events: Iterable[dict[str, Any]], who: Who | None = None
    ) -> wire.Receipts:
        """Append events as they would stand on the wire."""
        batch = msgspec.json.encode({"events": list(events)})
        new = msgspec.json.decode(batch, type=wire.NewEvents)
        return (await self.store.append((who or self.user).caller, thread_id, new))[1]

    async def events(self, thread_id: str, after: int = 0) -> list[wire.Envelope]:
        """Return the log of a thread, everybody's keys shown."""
        await trio.lowlevel.checkpoint()
        return [event for event in self._logs[thread_id] if event.seq > after]

    async def wait_for(
        self,
        thread_id: str,
        predicate: Callable[[list[wire.Envelope]], Any],
        *,
        after: int = 0,
        within_s: float = 10.0,
    ) -> list[wire.Envelope]:
        """Return the events once the predicate holds for them. Raises trio.TooSlowError."""
        with trio.fail_after(within_s):
            while True:
                if self._news.is_set():
                    self._news = trio.Event()
                events = await self.events(thread_id, after)
                if predicate(events):
                    return events
                await self._news.wait()

    def _hear(self, change: Change) -> None:
        if isinstance(change, Committed):
            self._logs[change.thread_id] += change.events
            self._news.set()


@asynccontextmanager
async def fake_server(
    config: ServerConfig | None = None, place: Path | str | None = None
) -> AsyncIterator[FakeServer]:
    """Serve on a free port of loopback until the block ends, from a place or a fresh store."""
    config = config or ServerConfig()
    async with (
        open_store(place or fresh.fresh_place(), limits=config.limits) as store,
        trio.open_nursery() as nursery,
    ):
        server = FakeServer(store, config, nursery)
        server.user = await server.make_user("user-ada")
        server.bot = await server.make_bot("bot-research")
        await server.come_up()
        yield server
        nursery.cancel_scope.cancel()


__all__ = ["FakeServer", "Faults", "Who", "fake_server"]
