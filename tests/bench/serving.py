"""A server in a process of its own, with a user, a bot, and threads that the bot is on."""

import sys
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE

import msgspec
import trio

from scuba import wire
from scuba.server import (
    SYSTEM,
    Caller,
    ServerConfig,
    Store,
    collect_less,
    open_store,
    serve_bubble,
)
from scuba.server.config import Rate
from tests.bench.measure import rss_bytes

FAST = Rate(1_000_000, 1_000_000)
START_S = 60.0
STOP_S = 15.0


class Wanted(msgspec.Struct, frozen=True):
    """What kind of server: its store, and the limits that a bench has to lift."""

    threads: int = 1
    store: str | None = None
    """As `--store` has it; None for one in memory."""
    sockets: int = 2_000
    write_s: float = 20.0


class Served(msgspec.Struct, frozen=True):
    """Where it is, and who may come."""

    url: str
    user_token: str
    bot_id: str
    bot_token: str
    threads: list[str]


class Usage(msgspec.Struct, frozen=True):
    """What the server's process has taken so far."""

    rss_bytes: int
    cpu_s: float


class Serving:
    """A server that runs elsewhere."""

    def __init__(self, process: trio.Process, facts: Served) -> None:
        self._process, self.facts = process, facts

    async def usage(self) -> Usage:
        """Return its memory and processor time, as it sees them itself."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(b"?\n")
        return msgspec.json.decode(await line_of(self._process), type=Usage)

    async def stop(self) -> float:
        """Have it end in order; return how many seconds that took."""
        assert self._process.stdin is not None
        began = trio.current_time()
        with trio.fail_after(STOP_S):
            await self._process.stdin.aclose()
            await self._process.wait()
        return trio.current_time() - began


async def line_of(process: trio.Process) -> bytes:
    assert process.stdout is not None
    told = b""
    with trio.fail_after(START_S):
        while not told.endswith(b"\n"):
            piece = await process.stdout.receive_some()
            if not piece:
                raise EOFError("the server has ended")
            told += piece
    return told


@asynccontextmanager
async def serving(wanted: Wanted) -> AsyncGenerator[Serving]:
    """Run such a server as long as the block runs."""
    options = msgspec.json.encode(wanted).decode()
    command = [sys.executable, "-m", "tests.bench.serving", options]
    root = Path(__file__).parents[2]
    process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE, cwd=root)
    assert process.stdin is not None
    try:
        yield Serving(process, msgspec.json.decode(await line_of(process), type=Served))
    finally:
        with trio.move_on_after(STOP_S, shield=True):
            await process.stdin.aclose()
            await process.wait()
        process.kill()


@asynccontextmanager
async def served(threads: int) -> AsyncGenerator[Served]:
    """Run a server with that many threads as long as the block runs."""
    async with serving(Wanted(threads=threads)) as running:
        yield running.facts


async def main(wanted: Wanted) -> None:
    """Serve until the input ends; say what has been used whenever a line comes."""
    config = ServerConfig(
        appends=FAST,
        requests=FAST,
        sockets=wanted.sockets,
        sockets_per_principal=wanted.sockets,
        write_s=wanted.write_s,
        heartbeat_s=600.0,  # nobody answers pings here
    )
    collect_less()
    async with open_store(wanted.store) as store, trio.open_nursery() as nursery:
        stop = trio.Event()
        url = await nursery.start(partial(serve_bubble, store, config, stop=stop))
        user = await make(store, SYSTEM, "user")
        bot = await make(store, user[0], "bot")
        ids = [await joint_thread(store, user[0], bot[0]) for _ in range(wanted.threads)]
        say(Served(url, user[1], bot[0].id, bot[1], ids))
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            say(Usage(rss_bytes(), time.process_time()))
        stop.set()


async def make(store: Store, by: Caller, kind: wire.PrincipalKind) -> tuple[Caller, str]:
    """Return a new principal and its token."""
    new = wire.NewPrincipal(principal_id=f"{kind}-{uuid.uuid4().hex[:8]}", kind=kind)
    _, made = await store.create_principal(by, new)
    token = made.token or await store.mint_token(by, new.principal_id, wire.NewToken())
    assert token.token is not None
    caller = await store.identify(token.token)
    assert caller is not None
    return caller, token.token


async def joint_thread(store: Store, owner: Caller, member: Caller) -> str:
    """Return the id of a new thread that both are on."""
    _, thread = await store.create_thread(owner, wire.NewThread())
    target = wire.Target(type="thread", thread_id=thread.thread_id)
    grant = wire.NewGrant(target=target, principal_id=member.id, role="member")
    await store.put_grant(owner, grant)
    return thread.thread_id


def say(facts: msgspec.Struct) -> None:
    sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, msgspec.json.decode(sys.argv[1], type=Wanted))
