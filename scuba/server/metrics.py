"""The numbers of a server for Prometheus, on a bind of their own that only this machine reaches.

Names and meanings are in docs/operations.md. No label holds a thread or a principal.
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scuba.listener import App
from scuba.server.counts import Counts, Pace, Spread
from scuba.server.socket.hub import Hub
from scuba.server.store import Change, Committed, Store

BIND = "127.0.0.1"
NAMES = ["127.0.0.1", "localhost"]


class Metrics:
    """Reads the numbers where they are kept. Whoever asks pays; who counts does not wait."""

    def __init__(self, counts: Counts, hub: Hub, store: Store) -> None:
        self._counts, self._hub, self._store = counts, hub, store
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def heard(self, change: Change) -> None:
        """Take one change of the store."""
        if isinstance(change, Committed):
            self._counts.events += len(change.events)

    def render(self) -> bytes:
        """Return them in Prometheus' text form."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield each family; called by the registry."""
        yield from _http(self._counts)
        yield from _sockets(self._counts, self._hub)
        yield from _store(self._counts, self._store.pace, self._store.waiting)


def _http(counts: Counts) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "scuba_http_requests", "HTTP requests answered", labels=["route", "method", "status"]
    )
    refused = dict.fromkeys((401, 429), 0)
    for (route, method, status), count in counts.requests.items():
        requests.add_metric([route, method, str(status)], count)
        if status in refused:
            refused[status] += count
    yield requests
    seconds = HistogramMetricFamily(
        "scuba_http_request_seconds", "From the head of a request to its answer", labels=["route"]
    )
    for route, spread in counts.request_s.items():
        seconds.add_metric([route], spread.buckets(), spread.sum)
    yield seconds
    yield _counter("scuba_failed_logins", "Requests refused with 401", refused[401])
    limited = CounterMetricFamily(
        "scuba_rate_limited", "Refused as too many, by kind", labels=["kind"]
    )
    limited.add_metric(["request"], refused[429])
    limited.add_metric(["subscribe"], counts.slow_subscribes)
    yield limited


def _sockets(counts: Counts, hub: Hub) -> Iterator[Metric]:
    yield _gauge("scuba_sockets", "Sockets open", hub.connected)
    yield _gauge("scuba_subscriptions", "Threads followed, each socket's own", hub.subscriptions)
    yield _gauge("scuba_tail_bytes", "Newest events held for sockets", hub.tail_bytes)
    yield _counter("scuba_frames_sent", "Frames of events sent", counts.frames)
    yield _counter("scuba_frame_events_sent", "Events in them", counts.frame_events)
    yield _counter("scuba_frame_bytes_sent", "Bytes of them", counts.frame_bytes)
    closes = CounterMetricFamily(
        "scuba_socket_closes", "Sockets closed by the server, by code", labels=["code"]
    )
    for code, count in counts.closes.items():
        closes.add_metric([str(code)], count)
    yield closes
    yield _histogram(
        "scuba_fan_out_seconds", "From a commit to a reader's frame up to it", counts.fan_out_s
    )


def _store(counts: Counts, pace: Pace, waiting: int) -> Iterator[Metric]:
    yield _counter("scuba_events", "Events committed", counts.events)
    yield _histogram("scuba_commit_writes", "Writes that shared one commit", pace.writes)
    yield _histogram("scuba_commit_seconds", "From its begin to the disk", pace.seconds)
    yield _counter("scuba_commit_failures", "Commits that the store could not do", pace.failures)
    yield _gauge("scuba_store_waiting", "Writes that wait for a commit", waiting)


def _counter(name: str, says: str, value: float) -> Metric:
    return CounterMetricFamily(name, says, value=value)


def _gauge(name: str, says: str, value: float) -> Metric:
    return GaugeMetricFamily(name, says, value=value)


def _histogram(name: str, says: str, spread: Spread) -> Metric:
    family = HistogramMetricFamily(name, says)
    family.add_metric([], spread.buckets(), spread.sum)
    return family


def metrics_app(render: Callable[[], bytes]) -> App:
    """Return the ASGI app of the metrics bind: `GET /metrics`, and nothing for a foreign page."""

    async def metrics(_request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(render(), headers=headers, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=NAMES, www_redirect=False)
    return Starlette(routes=[Route("/metrics", metrics, methods=["GET"])], middleware=[hosts])
