"""Which handler answers which method of which path. The table of chapters 2 to 7."""

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as Path

from scuba.errors import Problem
from scuba.server.http import artifacts, consumer_cursors, events, grants, identity, meta, threads
from scuba.server.http.call import Call, Parts
from scuba.server.http.replies import problem
from scuba.server.store import Caller
from scuba.wire import Route

Handler = Callable[[Call, Caller], Awaitable[Response]]
OpenHandler = Callable[[Call], Awaitable[Response]]

OPEN: dict[str, OpenHandler] = {
    Route.INFO: meta.info,
    Route.OPENAPI: meta.openapi,
    Route.HEALTH: meta.health,
    Route.READY: meta.ready,
}
"""Answered to anybody, by GET."""

HANDLERS: dict[str, dict[str, Handler]] = {
    Route.WHOAMI: {"GET": identity.whoami},
    Route.PRINCIPALS: {"GET": identity.find_principals, "POST": identity.create_principal},
    Route.PRINCIPAL: {"GET": identity.principal, "PATCH": identity.change_principal},
    Route.TOKENS: {
        "GET": identity.tokens,
        "POST": identity.mint_token,
        "DELETE": identity.revoke_tokens,
    },
    Route.TOKEN: {"DELETE": identity.revoke_token},
    Route.GRANTS: {
        "GET": grants.grants,
        "POST": grants.put_grant,
        "DELETE": grants.delete_grant,
    },
    Route.THREADS: {"GET": threads.threads, "POST": threads.create_thread},
    Route.THREAD: {"GET": threads.thread, "PATCH": threads.change_thread},
    Route.INVITES: {"POST": grants.invite},
    Route.SUBTHREADS: {"POST": threads.create_subthread},
    Route.EVENTS: {"GET": events.events, "POST": events.append},
    Route.EVENT: {"GET": events.event},
    Route.RUN: {"GET": events.run},
    Route.CURSORS: {"GET": consumer_cursors.cursors},
    Route.CURSOR: {"PUT": consumer_cursors.put_cursor},
    Route.ARTIFACTS: {"GET": artifacts.artifacts, "POST": artifacts.create_artifact},
    Route.ARTIFACT: {"GET": artifacts.artifact},
    Route.VERSIONS: {"POST": artifacts.add_version},
    Route.CONTENT: {"GET": artifacts.content},
}
"""Answered to who has a token."""


def paths(parts: Parts) -> list[Path]:
    """Return the routes below the configured prefix."""
    prefix = parts.config.prefix
    return [_open(prefix + path, parts, handler) for path, handler in OPEN.items()] + [
        _guarded(prefix + path, parts, by_method) for path, by_method in HANDLERS.items()
    ]


def _open(path: str, parts: Parts, handler: OpenHandler) -> Path:
    async def endpoint(request: Request) -> Response:
        request.state.route = path
        return await handler(Call(parts, request))

    return Path(path, endpoint, methods=["GET"])


def _guarded(path: str, parts: Parts, by_method: dict[str, Handler]) -> Path:
    async def endpoint(request: Request) -> Response:
        request.state.route = path
        call = Call(parts, request)
        handler = by_method["GET" if request.method == "HEAD" else request.method]
        return await handler(call, await call.caller(appends=handler is events.append))

    return Path(path, endpoint, methods=list(by_method))


async def refuse(request: Request, error: Exception) -> Response:
    """Return the answer to a Problem, an unknown route or method, or a fault of ours."""
    answer = problem(_as_problem(error), str(request.state.request_id))
    if isinstance(error, HTTPException):
        answer.headers.update(error.headers or {})  # Allow
    return answer


def _as_problem(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case HTTPException(status_code=404):
            return Problem(404, "not_found", "no such route")
        case HTTPException(status_code=405):
            return Problem(405, "method_not_allowed", "this route does not take this method")
        case ClientDisconnect():
            return Problem(400, "invalid_json", "the connection ended within the body")
        case _:
            return Problem(500, "internal", "a fault of the server; it has been logged")
