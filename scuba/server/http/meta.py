"""What the server says of itself, to anybody (11.1, 14.1)."""

from starlette.responses import Response

from scuba import __version__, wire
from scuba.server.description import openapi_text
from scuba.server.http.call import Call
from scuba.server.http.replies import reply


async def info(call: Call) -> Response:
    """Describe the server and its limits."""
    major, _, minor = wire.PROTOCOL.partition(".")
    return reply(
        wire.Info(
            name="bubble",
            server=f"scuba-bubble/{__version__}",
            protocol={"major": int(major), "minor": int(minor)},
            log_epoch=call.store.log_epoch,
            auth_drivers=[*call.parts.logins.drivers],
            extensions=[wire.ARTIFACTS],
            limits=call.parts.config.limits,
        )
    )


async def openapi(call: Call) -> Response:
    """Describe every route, for programs."""
    return Response(openapi_text(call.parts.config.prefix), media_type="application/json")


async def health(_call: Call) -> Response:
    """Say that the loop runs."""
    return reply({"status": "ok"})


async def ready(call: Call) -> Response:
    """Say that work can be taken. Raises Problem 503 naming the part that fails."""
    await call.parts.readiness.require()
    return reply({"status": "ready"})
