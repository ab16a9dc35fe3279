"""A store with people in it: short words for what tests of the store say all the time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actors.events import Role
from scuba import wire
from scuba.errors import Problem
from scuba.server.store import SYSTEM, Caller, Change, Store, open_store

C = TypeVar("C", bound=msgspec.Struct)
S = TypeVar("S", bound=msgspec.Struct)


def make(kind: type[S], /, **fields: object) -> S:
    """Return a struct of fields that are only known as a dict."""
    build: Callable[..., S] = kind
    return build(**fields)


class Clock:
    """The wall clock of a store, set by hand."""

    def __init__(self) -> None:
        self.at_ms = 1_800_000_000_000

    def __call__(self) -> int:
        return self.at_ms

    def pass_s(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1_000)


class World:
    """A store, its clock, and every change it told of."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.changes: list[Change] = []
        self.tokens: dict[str, str] = {}
        store.listen(self.changes.append)

    async def user(self, name: str, **fields: object) -> Caller:
        return await self._make(SYSTEM, name, "user", fields)

    async def bot(self, name: str, owner: Caller, **fields: object) -> Caller:
        return await self._make(owner, name, "bot", fields)

    async def _make(
        self, by: Caller, name: str, kind: wire.PrincipalKind, fields: dict[str, object]
    ) -> Caller:
        body = make(wire.NewPrincipal, principal_id=name, kind=kind, **fields)
        _, made = await self.store.create_principal(by, body)
        assert made.token is not None
        assert made.token.token is not None
        self.tokens[name] = made.token.token
        caller = await self.store.identify(made.token.token)
        assert caller is not None
        return caller

    async def thread(self, owner: Caller, **fields: object) -> str:
        _, thread = await self.store.create_thread(owner, make(wire.NewThread, **fields))
        return thread.thread_id

    async def grant(self, by: Caller, thread_id: str, who: Caller | str, role: Role) -> wire.Grant:
        name = who if isinstance(who, str) else who.id
        body = wire.NewGrant(target=on_thread(thread_id), principal_id=name, role=role)
        return (await self.store.put_grant(by, body))[1]

    async def revoke(self, by: Caller, thread_id: str, who: Caller) -> None:
        await self.store.delete_grant(by, on_thread(thread_id), who.id)

    async def append(
        self, caller: Caller, thread_id: str, *events: wire.NewEvent, **fields: object
    ) -> wire.Receipts:
        body = make(wire.NewEvents, events=list(events), **fields)
        return (await self.store.append(caller, thread_id, body))[1]

    async def log(self, caller: Caller, thread_id: str) -> list[wire.Envelope]:
        return (await self.page(caller, thread_id, after=0)).events

    async def page(self, caller: Caller, thread_id: str, **asked: object) -> wire.Page:
        nothing: dict[str, object] = {
            "after": None,
            "before": None,
            "tail": None,
            "align_runs": False,
            "run_id": None,
            "types": (),
            "limit": 1_000,
        }
        page: Callable[..., Awaitable[wire.Page]] = self.store.page
        return await page(caller, thread_id, **(nothing | asked))

    def told(self, kind: type[C]) -> list[C]:
        return [change for change in self.changes if isinstance(change, kind)]


def in_memory() -> str | None:
    return None


fresh_place: Callable[[], str | None] = in_memory
"""Where a new world is: the fixture `engine` has some tests take another database for it."""


@asynccontextmanager
async def open_world(path: Path | str | None = None, **fields: object) -> AsyncGenerator[World]:
    """Open a store in a place, or in a fresh one of the engine in turn."""
    clock = Clock()
    open_: Callable[..., AbstractAsyncContextManager[Store]] = open_store
    async with open_(path or fresh_place(), now_ms=clock, **fields) as store:
        yield World(store, clock)


def on_thread(thread_id: str) -> wire.Target:
    return wire.Target(type="thread", thread_id=thread_id)


def on_principal(principal_id: str) -> wire.Target:
    return wire.Target(type="principal", principal_id=principal_id)


ON_SYSTEM = wire.Target(type="system")


def event(
    type_: str, payload: object = None, *, run: str | None = None, key: str | None = None
) -> wire.NewEvent:
    raw = msgspec.Raw(msgspec.json.encode({} if payload is None else payload))
    return wire.NewEvent(type=type_, run_id=run, payload=raw, key=key)


def part(chunk: dict[str, Any], run: str | None = None, key: str | None = None) -> wire.NewEvent:
    return event("message_part", {"chunk": chunk}, run=run, key=key)


def text(said: str, run: str | None = None, key: str | None = None) -> wire.NewEvent:
    return part({"type": "text-delta", "id": "t", "delta": said}, run, key)


def tool_call(call: str, run: str) -> wire.NewEvent:
    chunk = {"type": "tool-input-available", "toolCallId": call, "toolName": "Bash", "input": {}}
    return part(chunk, run)


def started(run: str, key: str | None = None) -> wire.NewEvent:
    return event("run_started", run=run, key=key)


def finished(run: str, key: str | None = None, status: str = "completed") -> wire.NewEvent:
    return event("run_finished", {"status": status}, run=run, key=key)


def decide(run: str, call: str, decision: str = "allow") -> wire.NewEvent:
    return event("tool_call_approval", {"toolCallId": call, "decision": decision}, run=run)


def answer(run: str, call: str) -> wire.NewEvent:
    return event("tool_call_result", {"toolCallId": call, "output": 1}, run=run)


def interrupt(run: str) -> wire.NewEvent:
    return event("run_interrupt_requested", run=run)


def said(envelope: wire.Envelope) -> object:
    payload: object = msgspec.json.decode(envelope.payload)
    return payload


async def problem(call: Awaitable[object]) -> Problem:
    """Return the Problem that a call must raise."""
    try:
        await call
    except Problem as error:
        return error
    raise AssertionError("nothing was refused")


async def refused(call: Awaitable[object]) -> tuple[int, str]:
    """Return status and code of the Problem that a call must raise."""
    error = await problem(call)
    return error.status, error.code
