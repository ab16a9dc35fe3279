"""What a client would rather have: JSON, unless it names lines and wants them no less (7.3)."""

import pytest

from scuba.server.http.accept import prefers

LINES, JSON = "application/x-ndjson", "application/json"


@pytest.mark.parametrize(
    "accept",
    [
        "application/x-ndjson",
        "Application/X-NDJSON",
        "application/x-ndjson; q=0.5",
        "application/x-ndjson, */*;q=0.1",
        "application/x-ndjson, */*",
        "application/x-ndjson, application/*;q=0.9",
        "application/json;q=0.8, application/x-ndjson;q=0.9",
        "text/html;level=1, application/x-ndjson;q=1.0, application/json;q=0",
    ],
)
def test_lines_are_asked_for(accept: str) -> None:
    assert prefers(accept, LINES, JSON)


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "application/*",
        "application/json",
        "text/html",
        "application/x-ndjson, application/json",
        "application/x-ndjson;q=0.5, application/json",
        "application/x-ndjson;q=0.5, */*",
        "application/x-ndjson;q=0",
        "application/x-ndjson;q=0, */*",
        "application/x-ndjson;q=2",
        "application/x-ndjson;q=x",
        "application/x-ndjson-other",
        "text/x-ndjson",
    ],
)
def test_anything_else_is_json(accept: str | None) -> None:
    assert not prefers(accept, LINES, JSON)
