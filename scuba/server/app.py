"""The Bubble server as one ASGI app over a store: START HERE to find a route, a rule, a limit."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import WebSocketRoute
from starlette.types import Receive, Scope, Send

from scuba import wire
from scuba.errors import Problem
from scuba.server.config import ServerConfig
from scuba.server.counts import Counts
from scuba.server.http.border import Border
from scuba.server.http.call import Parts
from scuba.server.http.cursors import Cursors
from scuba.server.http.routes import paths, refuse
from scuba.server.http.uploads import Uploads
from scuba.server.login import Logins
from scuba.server.metrics import Metrics
from scuba.server.rates import Buckets
from scuba.server.readiness import Readiness
from scuba.server.socket.app import SocketApp
from scuba.server.socket.hub import Hub
from scuba.server.socket.parts import SocketParts
from scuba.server.store import Store


class BubbleApp:
    """Routes and sockets over one store. It listens to the store until `detach`."""

    def __init__(self, store: Store, config: ServerConfig) -> None:
        logins = Logins(store, config)
        hub = Hub()
        counts = Counts()
        self.metrics = Metrics(counts, hub, store)
        self._sockets = SocketApp(SocketParts(store, config, logins, hub, counts))
        parts = Parts(
            store=store,
            config=config,
            logins=logins,
            cursors=Cursors(store.cursor_key),
            requests=Buckets(config.requests),
            appends=Buckets(config.appends),
            uploads=Uploads(),
            readiness=Readiness(store.check),
        )
        socket = WebSocketRoute(config.prefix + wire.Route.SOCKET, self._sockets)
        app = Starlette(
            routes=[*paths(parts), socket],
            exception_handlers={
                Problem: refuse,
                HTTPException: refuse,
                ClientDisconnect: refuse,
                Exception: refuse,
            },
        )
        app.router.redirect_slashes = False
        self._border = Border(app, config, counts)
        self._undo = (
            store.listen(logins.heard),
            store.listen(hub.heard),
            store.listen(self.metrics.heard),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or socket."""
        await self._border(scope, receive, send)

    def detach(self) -> None:
        """Listen to the store no longer."""
        for undo in self._undo:
            undo()

    async def stop(self) -> None:
        """Take no new work, end the sockets, return when no request is in hand (14.5)."""
        self._border.stopping = True
        self._sockets.stop()
        await self._border.drained()


def make_app(store: Store, config: ServerConfig) -> BubbleApp:
    """Return the app. Whoever serves it owns the listener; `serve_bubble` does both."""
    return BubbleApp(store, config)
