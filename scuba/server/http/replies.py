"""What leaves by HTTP: JSON that spells out what it says, and problems (13)."""

import msgspec
from starlette.responses import Response

from scuba.errors import Problem
from scuba.server.spelling import spelled


def reply(value: object, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(spelled(value)), status, media_type="application/json")


def done() -> Response:
    """Return the answer that has nothing to add."""
    return Response(status_code=204)


def problem(error: Problem, request_id: str) -> Response:
    """Return a refusal as problem+json, with the headers its status asks for."""
    fields = {_camel(name): value for name, value in error.fields.items() if value is not None}
    wait = fields.pop("retryAfter", None)
    body = {
        "type": f"urn:bubble:error:{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail,
        "requestId": request_id,
        **fields,
    }
    headers: dict[str, str] = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="bubble"'
    if error.status in (429, 503):
        headers["Retry-After"] = str(wait or 1)
    content = msgspec.json.encode(body)
    return Response(content, error.status, headers, media_type="application/problem+json")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
