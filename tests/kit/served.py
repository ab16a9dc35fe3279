"""A server in a process of its own that adversaries may torment: its pid, its memory, its files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import trio

from scuba import wire
from scuba.server import SYSTEM, Caller, ServerConfig, Store, open_store, serve_bubble
from scuba.server.config import Rate

ROOT = Path(__file__).parents[2]
START_S = 60.0
STOP_S = 15.0
FAST = Rate(1_000_000, 1_000_000)


class Served(msgspec.Struct, frozen=True):
    """Where it is, and who may come: an owner, a member, and somebody who knows nobody."""

    url: str
    pid: int
    owner_token: str
    bot_token: str
    stranger_token: str
    thread_id: str
    idle_files: int
    """How many files it has open when nobody is connected."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def rss_bytes(self) -> int:
        """Return how much memory the process has in use."""
        pages = int((Path("/proc") / str(self.pid) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """Return how many files and sockets it has open."""
        return open_files(self.pid)

    def alive(self) -> bool:
        """Return whether it runs."""
        try:
            stat = (Path("/proc") / str(self.pid) / "stat").read_text()
        except FileNotFoundError:
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"


def open_files(pid: int) -> int:
    """Return how many files and sockets a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


@contextmanager
def served() -> Iterator[Served]:
    """Run such a server as long as the block runs; it ends in order, or the block raises."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield msgspec.json.decode(process.stdout.readline(), type=Served)
        finally:
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert process.returncode == 0, f"the server ended with {process.returncode}"


async def main() -> None:
    """Serve from a store in memory until the input ends."""
    config = ServerConfig(
        appends=FAST, requests=FAST, failed_logins=FAST, sockets_per_principal=500, auth_s=5.0
    )
    stop = trio.Event()
    async with open_store(None) as store, trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_bubble, store, config, stop=stop))
        facts = await _people(store, url)
        sys.stdout.write(msgspec.json.encode(facts).decode() + "\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read)
        stop.set()


async def _people(store: Store, url: str) -> Served:
    owner, owner_token = await _make(store, SYSTEM, "user-ada", "user")
    bot, bot_token = await _make(store, owner, "bot-research", "bot")
    _, stranger_token = await _make(store, SYSTEM, "user-eve", "user")
    _, thread = await store.create_thread(owner, wire.NewThread(title="First"))
    target = wire.Target(type="thread", thread_id=thread.thread_id)
    await store.put_grant(owner, wire.NewGrant(target=target, principal_id=bot.id, role="member"))
    tokens = (owner_token, bot_token, stranger_token)
    pid = os.getpid()
    return Served(url, pid, *tokens, thread.thread_id, open_files(pid) - 1)


async def _make(
    store: Store, by: Caller, name: str, kind: wire.PrincipalKind
) -> tuple[Caller, str]:
    _, made = await store.create_principal(by, wire.NewPrincipal(principal_id=name, kind=kind))
    token = made.token or await store.mint_token(by, name, wire.NewToken())
    assert token.token is not None
    caller = await store.identify(token.token)
    assert caller is not None
    return caller, token.token


if __name__ == "__main__":
    trio.run(main)
