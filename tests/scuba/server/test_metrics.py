"""Metrics: what happened is counted, on a bind of its own, and names no thread or principal."""

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from scuba import wire
from scuba.errors import ConfigError, ScubaError
from scuba.server import SYSTEM, ServerConfig, check_config, open_store, serve_bubble
from scuba.server.config import Rate
from scuba.server.counts import Counts, Spread
from tests.kit.peer import ready

USER = "user-metrics"


class Measured:
    """A server with a user, and where its numbers are."""

    def __init__(self, url: str, metrics_url: str, token: str) -> None:
        self.url, self.metrics_url, self.token = url, metrics_url, token
        self.bearer = {"Authorization": f"Bearer {token}"}

    async def text(self) -> str:
        async with httpx.AsyncClient() as http:
            answer = await http.get(self.metrics_url)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return answer.text

    async def numbers(self) -> dict[str, float]:
        """Return each sample by its name and labels."""
        lines = [line for line in (await self.text()).splitlines() if line[0] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@asynccontextmanager
async def measured(
    caplog: pytest.LogCaptureFixture, config: ServerConfig | None = None
) -> AsyncIterator[Measured]:
    caplog.set_level(logging.INFO, "scuba.server.serve")
    config = config or ServerConfig(metrics_port=0)
    async with open_store(None) as store, trio.open_nursery() as nursery:
        new = wire.NewPrincipal(principal_id=USER, kind="user")
        await store.create_principal(SYSTEM, new)
        token = await store.mint_token(SYSTEM, USER, wire.NewToken())
        url = await nursery.start(partial(serve_bubble, store, config, stop=trio.Event()))
        [metrics_url] = re.findall(r"http://127\.0\.0\.1:\d+/metrics", caplog.text)
        with trio.fail_after(20):
            yield Measured(url, metrics_url, str(token.token))
        nursery.cancel_scope.cancel()


async def test_what_happens_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Chapter 14.1."""
    async with measured(caplog) as server, httpx.AsyncClient(base_url=server.url) as http:
        made = await http.post("/v1/threads", json={}, headers=server.bearer)
        thread = made.json()["thread"]["threadId"]
        async with ready(server.url, server.token) as peer:
            await peer.subscribe(thread, 2)
            await peer.expect("server.subscribed")
            await peer.expect("server.caught_up")
            path = f"/v1/threads/{thread}/events"
            events = [{"type": "x.a.b", "payload": {}}] * 3
            await http.post(path, json={"events": events}, headers=server.bearer)
            await peer.seqs(thread, 5)
            await http.get(path)  # nobody
            await http.request("BREW", "/v1/coffee")
            numbers = await server.numbers()

    expected = {
        'scuba_http_requests_total{method="POST",route="/v1/threads",status="201"}': 1,
        'scuba_http_requests_total{method="POST",route="/v1/threads/{thread_id}/events",'
        'status="201"}': 1,
        'scuba_http_requests_total{method="GET",route="/v1/threads/{thread_id}/events",'
        'status="401"}': 1,
        'scuba_http_requests_total{method="other",route="other",status="404"}': 1,
        'scuba_http_request_seconds_count{route="/v1/threads"}': 1,
        "scuba_failed_logins_total": 1,
        "scuba_events_total": 5,  # two of them made the thread
        "scuba_sockets": 1,
        "scuba_subscriptions": 1,
        "scuba_frames_sent_total": 1,
        "scuba_frame_events_sent_total": 3,
        "scuba_fan_out_seconds_count": 1,
        "scuba_commit_failures_total": 0,
        "scuba_store_waiting": 0,
    }
    assert {name: numbers.get(name) for name in expected} == expected
    assert numbers["scuba_commit_writes_sum"] >= numbers["scuba_commit_writes_count"] >= 2
    assert numbers["scuba_frame_bytes_sent_total"] > 100
    assert numbers["process_resident_memory_bytes"] > 1e6


async def test_no_name_of_a_thread_or_principal_is_a_label(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with measured(caplog) as server, httpx.AsyncClient(base_url=server.url) as http:
        for path in ("/v1/threads/thr_secret", f"/v1/principals/{USER}", "/v1/secret"):
            await http.get(path, headers=server.bearer)
        text = await server.text()

    assert "secret" not in text
    assert USER not in text
    assert 'route="/v1/principals/{principal_id}"' in text


async def test_refusals_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Chapter 12."""
    config = ServerConfig(
        metrics_port=0, requests=Rate(0.001, 1), subscribes=Rate(0.001, 1), sockets_per_principal=1
    )
    async with measured(caplog, config) as server, httpx.AsyncClient(base_url=server.url) as http:
        for _ in range(3):
            await http.get("/v1/auth/whoami", headers=server.bearer)
        async with ready(server.url, server.token) as peer:
            for _ in range(3):
                await peer.subscribe("thr_unknown1", 0)
                await peer.expect("server.error")
        numbers = await server.numbers()

    assert numbers['scuba_rate_limited_total{kind="request"}'] == 2
    assert numbers['scuba_rate_limited_total{kind="subscribe"}'] == 2


async def test_metrics_are_for_programs_of_this_machine(caplog: pytest.LogCaptureFixture) -> None:
    """Field case 13.3: not on the server's own bind, and a rebound name is not ours."""
    async with measured(caplog) as server, httpx.AsyncClient() as http:
        assert (await http.get(f"{server.url}/metrics")).status_code == 404
        foreign = await http.get(server.metrics_url, headers={"Host": "evil.example"})
        assert foreign.status_code == 400
        assert server.metrics_url.startswith("http://127.0.0.1:")


async def test_without_a_port_there_are_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_store(None) as store, trio.open_nursery() as nursery:
        await nursery.start(partial(serve_bubble, store, ServerConfig(), stop=trio.Event()))
        nursery.cancel_scope.cancel()

    assert "metrics" not in caplog.text


async def test_a_metrics_port_that_is_taken_is_a_clear_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with measured(caplog) as server, open_store(None) as store:
        port = int(server.metrics_url.split(":")[2].partition("/")[0])
        with pytest.raises(ScubaError, match=str(port)):
            await serve_bubble(store, ServerConfig(metrics_port=port), stop=trio.Event())


def test_a_port_that_is_none_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="metricsPort"):
        check_config(ServerConfig(metrics_port=70_000))


@given(st.lists(st.floats(0, 5)), st.sampled_from([(1.0,), (0.5, 1.0, 2.0)]))
def test_a_spread_counts_each_value_once(values: list[float], bounds: tuple[float, ...]) -> None:
    spread = Spread(bounds)
    for value in values:
        spread.add(value)

    found = dict(spread.buckets())
    assert found.pop("+Inf") == len(values)
    assert found == {str(bound): sum(value <= bound for value in values) for bound in bounds}
    assert spread.sum == pytest.approx(sum(values))


@given(st.lists(st.text(), max_size=50))
def test_made_up_methods_make_no_new_series(methods: list[str]) -> None:
    counts = Counts()
    for method in methods:
        counts.request(None, method, 405, 0.001)

    assert len(counts.requests) <= 8
    assert len(counts.request_s) <= 1
