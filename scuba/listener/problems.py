"""What the listener answers by itself: `application/problem+json` (chapter 13), then it closes."""

import secrets
from email.utils import formatdate

import msgspec

from scuba.errors import Problem

NEEDED: dict[int, list[tuple[str, str]]] = {
    426: [("upgrade", "websocket"), ("sec-websocket-version", "13")],
    503: [("retry-after", "1")],
}
"""Header fields that belong to a status."""


def new_request_id() -> str:
    """Return an id that joins an answer to a line of the log."""
    return f"req_{secrets.token_hex(8)}"


def http_date() -> str:
    """Return the present moment as HTTP writes it."""
    return formatdate(usegmt=True)


def render_problem(problem: Problem, request_id: str, *, head_only: bool = False) -> bytes:
    """Return the whole response. It asks for the connection to close."""
    body = msgspec.json.encode(
        {
            "type": f"urn:bubble:error:{problem.code}",
            "title": problem.title,
            "status": problem.status,
            "code": problem.code,
            "detail": problem.detail,
            "requestId": request_id,
            **problem.fields,
        }
    )
    headers = [
        ("content-type", "application/problem+json"),
        ("content-length", str(len(body))),
        ("cache-control", "no-store"),
        ("connection", "close"),
        ("date", http_date()),
        ("x-request-id", request_id),
        *NEEDED.get(problem.status, []),
    ]
    lines = [f"HTTP/1.1 {problem.status} {problem.title}", *(f"{k}: {v}" for k, v in headers)]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    return head if head_only else head + body
