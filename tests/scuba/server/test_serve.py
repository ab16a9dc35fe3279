"""serve_bubble: up with an address, down within ten seconds, whatever is in hand."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import msgspec
import pytest
import trio
import trustme

from scuba import wire
from scuba.errors import ConfigError, ScubaError
from scuba.server import SYSTEM, ServerConfig, Store, open_store, serve_bubble
from tests.kit.peer import ready


class Up:
    def __init__(self, store: Store, url: str, stop: trio.Event, token: str) -> None:
        self.store, self.url, self.stop, self.token = store, url, stop, token
        self.done = trio.Event()


@asynccontextmanager
async def serving(config: ServerConfig | None = None) -> AsyncIterator[Up]:
    stop = trio.Event()
    async with open_store(None) as store, trio.open_nursery() as nursery:
        _, made = await store.create_principal(
            SYSTEM, wire.NewPrincipal(principal_id="user-ada", kind="user")
        )
        token = made.token or await store.mint_token(SYSTEM, "user-ada", wire.NewToken())
        serve = partial(serve_bubble, store, config or ServerConfig(), stop=stop)

        async def run(*, task_status: trio.TaskStatus[str]) -> None:
            await serve(task_status=task_status)
            up.done.set()

        url = await nursery.start(run)
        up = Up(store, url, stop, str(token.token))
        with trio.fail_after(20):
            yield up
        nursery.cancel_scope.cancel()


async def test_it_serves_and_stops_telling_its_sockets() -> None:
    """Chapters 8.9, 14.5."""
    async with serving() as up, ready(up.url, up.token) as peer:
        up.stop.set()
        hint = await peer.expect("server.closing", reason="restart")
        assert hint["reconnectAfterMs"] > 0
        assert await peer.closed() == 1001
        await up.done.wait()


async def test_an_append_in_hand_is_answered_before_the_end() -> None:
    async with serving() as up, httpx.AsyncClient(base_url=up.url) as http:
        headers = {"Authorization": f"Bearer {up.token}", "Content-Type": "application/json"}
        going = trio.Event()
        status: list[int] = []

        async def slowly() -> AsyncIterator[bytes]:
            yield b'{"title":'
            going.set()
            await trio.sleep(0.2)
            yield b'"slow"}'

        async def create() -> None:
            answer = await http.post("/v1/threads", headers=headers, content=slowly())
            status.append(answer.status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(create)
            await going.wait()
            await trio.sleep(0.05)  # the head is on its way through a real socket
            up.stop.set()
            await up.done.wait()

        assert status == [201]


async def test_a_peer_that_reads_nothing_does_not_hold_up_the_stop() -> None:
    async with serving() as up:
        _, thread = await up.store.create_thread(
            (await up.store.identify(up.token)) or SYSTEM, wire.NewThread()
        )
        async with ready(up.url, up.token) as peer:
            big = wire.NewEvents(
                events=[wire.NewEvent(type="x.a.b", payload=_payload(200_000)) for _ in range(5)]
            )
            caller = await up.store.identify(up.token)
            assert caller is not None
            for _ in range(20):
                await up.store.append(caller, thread.thread_id, big)
            # trio-websocket reads one message ahead and then no more
            await peer.subscribe(thread.thread_id, 0)
            await trio.sleep(0.3)
            up.stop.set()
            with trio.fail_after(10):
                await up.done.wait()


def _payload(size: int) -> msgspec.Raw:
    return msgspec.Raw(b'{"x":"' + b"y" * size + b'"}')


async def test_it_is_not_served_to_other_machines_in_the_clear() -> None:
    """Chapter 14.2."""
    async with open_store(None) as store:
        with pytest.raises(ConfigError, match="--trusted-proxy"):
            await serve_bubble(store, ServerConfig(bind="0.0.0.0"), stop=trio.Event())


async def test_a_port_that_is_taken_is_a_clear_error() -> None:
    async with serving() as up:
        port = int(up.url.rpartition(":")[2])
        with pytest.raises(ScubaError, match=str(port)):
            await serve_bubble(up.store, ServerConfig(port=port), stop=trio.Event())


async def test_it_speaks_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with serving(ServerConfig(tls_cert=cert, tls_key=key)) as up:
        assert up.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(base_url=up.url, verify=trust) as http:
            assert (await http.get("/readyz")).status_code == 200


async def test_a_bad_certificate_is_a_clear_error(tmp_path: Path) -> None:
    config = ServerConfig(tls_cert=tmp_path / "no.pem", tls_key=tmp_path / "no.key")
    async with open_store(None) as store:
        with pytest.raises(ConfigError, match=r"no\.pem"):
            await serve_bubble(store, config, stop=trio.Event())
