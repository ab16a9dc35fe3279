"""A server in a process of its own, with a bot on many threads."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE

import msgspec
import trio

from tests.kit.fake_server import fake_server


class Served(msgspec.Struct, frozen=True):
    """Where it is, and who may come."""

    url: str
    user_token: str
    bot_id: str
    bot_token: str
    threads: list[str]


@asynccontextmanager
async def served(threads: int) -> AsyncGenerator[Served]:
    """Run such a server as long as the block runs."""
    command = [sys.executable, "-m", "tests.bench.serving", str(threads)]
    root = Path(__file__).parents[2]
    process = await trio.lowlevel.open_process(command, stdin=PIPE, stdout=PIPE, cwd=root)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = b""
        with trio.fail_after(60):
            while not told.endswith(b"\n"):
                told += await process.stdout.receive_some()
        yield msgspec.json.decode(told, type=Served)
    finally:
        with trio.move_on_after(5, shield=True):
            await process.stdin.aclose()
            await process.wait()
        process.kill()


async def main(threads: int) -> None:
    """Serve until the input ends."""
    async with fake_server() as server:
        ids = [await server.make_thread(server.bot) for _ in range(threads)]
        facts = Served(server.url, server.user.token, server.bot.id, server.bot.token, ids)
        sys.stdout.write(json.dumps(msgspec.to_builtins(facts)) + "\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]))
