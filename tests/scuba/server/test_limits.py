"""Rates, cursors and settings: what the server lets a caller have."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scuba.errors import ConfigError, Problem
from scuba.server.config import Rate, ServerConfig, check_config, is_loopback
from scuba.server.http.cursors import LIFE_S, Cursors
from scuba.server.rates import Buckets


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_taken_then_the_rate() -> None:
    clock = Clock()
    buckets = Buckets(Rate(10, 3), clock)

    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("b") == 0
    clock.now += 0.1
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(0.1)


@given(st.lists(st.floats(0, 1), max_size=200), st.integers(1, 20), st.integers(1, 20))
def test_never_more_than_burst_and_rate_allow(steps: list[float], per_s: int, burst: int) -> None:
    clock, taken = Clock(), 0
    buckets = Buckets(Rate(per_s, burst), clock)
    start = clock.now
    for step in steps:
        clock.now += step
        taken += buckets.take("x") == 0

        assert taken <= burst + per_s * (clock.now - start) + 1e-6


def test_idle_names_are_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(Rate(1, 1), clock)
    for n in range(5_000):
        buckets.take(str(n))
        clock.now += 0.01

    assert len(buckets._full_at) < 4_200  # memory is the promise


def test_a_cursor_is_good_for_its_query_and_an_hour() -> None:
    clock = Clock()
    cursors = Cursors(b"key", clock)
    cursor = cursors.seal("thr_é 7", "query")

    assert cursors.open(cursor, "query") == "thr_é 7"
    for other, bound in ((cursors, "other"), (Cursors(b"another", clock), "query")):
        with pytest.raises(Problem, match="not one of this query"):
            other.open(cursor, bound)
    clock.now += LIFE_S + 1
    with pytest.raises(Problem, match="older than one hour"):
        cursors.open(cursor, "query")


@given(st.text(max_size=80))
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Problem) as caught:
        Cursors(b"key", Clock()).open(cursor, "query")
    assert caught.value.code == "invalid_query"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "[::1]", "::1"]
)
def test_loopback_names(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "10.0.0.1", "localhost.example", "127.0.0.1.nip.io"]
)
def test_names_that_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "config",
    [
        ServerConfig(),
        ServerConfig(bind="0.0.0.0", trusted_proxy=True),
        ServerConfig(bind="0.0.0.0", allow_insecure=True),
        ServerConfig(bind="0.0.0.0", tls_cert=Path("c"), tls_key=Path("k")),
        ServerConfig(prefix="/bubble/x", allowed_origins=("https://a.example:8443",)),
    ],
)
def test_good_settings_pass(config: ServerConfig) -> None:
    check_config(config)


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(
            ServerConfig(
                bind="0.0.0.0", port=70_000, prefix="x/", heartbeat_s=0,
                allowed_origins=("*", "https://a.example/", "https://ok.example"),
            )
        )  # fmt: skip

    lines = caught.value.what.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "port", "prefix", "bind", "heartbeatS, writeS, authS", "allowedOrigins", "allowedOrigins",
    ]  # fmt: skip


def test_half_of_tls_is_no_tls() -> None:
    with pytest.raises(ConfigError, match="both or neither"):
        check_config(ServerConfig(tls_cert=Path("c")))
