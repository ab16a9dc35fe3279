"""The server's whole life: listen, serve, and stop within ten seconds (14.5)."""

import gc
import logging
import re
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import trio

from scuba import wire
from scuba.errors import ConfigError
from scuba.listener import ListenerConfig, open_listener, serve_asgi
from scuba.server import metrics
from scuba.server.app import BubbleApp, make_app
from scuba.server.config import BATCH_ROOM_BYTES, ServerConfig, check_config
from scuba.server.store import Store

logger = logging.getLogger(__name__)

DRAIN_S = 7.0
"""For requests in hand to finish; what is left of the ten seconds is for the connections."""
LISTENER_S = 2.0
METRICS_S = 0.5
STOP_S = 10.0


def collect_less() -> None:
    """Have the collector visit only what is made from now on, and seldom. For a whole process.

    It cost a quarter of a fan-out: most of what a server makes is gone by counting references.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


async def serve_bubble(
    store: Store,
    config: ServerConfig,
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is set, then end within 10 s; `started` carries the base URL.

    Raises ConfigError when the settings are wrong, ScubaError when the address cannot be had.
    """
    check_config(config)
    if config.master_key is not None:
        logger.warning("the master key is set: whoever holds it acts as anybody (2.2)")
    limits = listener_config(config)
    async with AsyncExitStack() as opened:
        listeners = await _open(opened, config.bind, config.port)
        watched: list[trio.SocketListener] = []
        if config.metrics_port is not None:
            watched = await _open(opened, metrics.BIND, config.metrics_port)
        app = make_app(store, config)
        opened.callback(app.detach)
        closed = trio.Event()
        async with trio.open_nursery() as nursery:
            if watched:
                nursery.start_soon(_serve_metrics, app, watched, closed)
            await nursery.start(partial(serve_asgi, app, listeners, limits, stop=closed))
            task_status.started(_url(config, listeners[0]))
            await stop.wait()
            nursery.cancel_scope.deadline = trio.current_time() + STOP_S
            with trio.move_on_after(DRAIN_S):
                await app.stop()
            closed.set()


async def _open(opened: AsyncExitStack, host: str, port: int) -> list[trio.SocketListener]:
    """Return listeners that are closed with `opened`; closed already is well too."""
    listeners = await open_listener(host, port)
    for listener in listeners:
        await opened.enter_async_context(listener)
    return listeners


async def _serve_metrics(
    app: BubbleApp, listeners: Sequence[trio.SocketListener], stop: trio.Event
) -> None:
    port = listeners[0].socket.getsockname()[1]
    logger.info("metrics are at http://%s:%d/metrics", metrics.BIND, port)
    limits = ListenerConfig(body_bytes=0, max_connections=16, grace_s=METRICS_S)
    await serve_asgi(metrics.metrics_app(app.metrics.render), listeners, limits, stop=stop)


def listener_config(config: ServerConfig) -> ListenerConfig:
    """Return what the listener enforces of it. Raises ConfigError for TLS files that do not do."""
    context: ssl.SSLContext | None = None
    if config.tls_cert is not None and config.tls_key is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(config.tls_cert, config.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"tlsCert {config.tls_cert}, tlsKey {config.tls_key}: {error}",
                "give a certificate chain and its key as PEM files",
            ) from error
    return ListenerConfig(
        write_s=config.write_s,
        body_bytes=config.limits.batch_bytes + BATCH_ROOM_BYTES,
        large_body_path=_contents_path(config),
        large_body_bytes=config.limits.artifact_bytes,
        ws_frame_bytes=wire.FRAME_IN_BYTES,
        ws_laggard_code=wire.Close.LAGGARD,
        header_bytes=wire.HEADER_BYTES,
        ssl_context=context,
        grace_s=LISTENER_S,
    )


def _contents_path(config: ServerConfig) -> re.Pattern[bytes]:
    """Return the form of the one path that takes large bodies (11.2)."""
    path = re.escape(config.prefix + wire.Route.VERSIONS)
    return re.compile(path.replace(re.escape("{artifact_id}"), "[^/]+").encode())


def _url(config: ServerConfig, listener: trio.SocketListener) -> str:
    host = f"[{config.bind}]" if ":" in config.bind else config.bind
    scheme = "http" if config.tls_cert is None else "https"
    port = listener.socket.getsockname()[1]
    return f"{scheme}://{host}:{port}{config.prefix}"
