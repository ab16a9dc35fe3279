"""The OpenAPI document: valid, and complete in both directions."""

import re
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

import scuba
from scuba.server.description import openapi
from scuba.server.http.routes import HANDLERS, OPEN
from scuba.server.http.table import OPEN_TABLE, TABLE
from scuba.wire.problems import STATUS

SOURCE = Path(scuba.__file__).parent
HEAD_TOO = {"head", "get", "post", "put", "patch", "delete"}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, item[method])
        for path, item in openapi()["paths"].items()
        for method in sorted(HEAD_TOO & set(item))
    ]


def test_the_document_is_valid() -> None:
    validate(openapi())
    assert openapi("/below")["servers"] == [{"url": "/below"}]


def test_every_route_is_described_and_none_is_invented() -> None:
    described = {path: set(by_method) for path, by_method in TABLE.items()}

    assert described == {path: set(by_method) for path, by_method in HANDLERS.items()}
    assert set(OPEN_TABLE) == set(OPEN)


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]

    assert len(set(names)) == len(names)


def test_head_is_get_without_content() -> None:
    item = openapi()["paths"]["/v1/threads/{threadId}/events"]

    assert item["head"]["parameters"] == item["get"]["parameters"]
    assert set(item["head"]["responses"]) == set(item["get"]["responses"])
    assert not any("content" in answer for answer in item["head"]["responses"].values())


def test_every_reference_leads_to_a_schema_and_none_is_left_over() -> None:
    document = openapi()
    named = set(re.findall(r'"\$ref": ?"#/components/schemas/([^"]+)"', _text(document)))

    assert named == set(document["components"]["schemas"])


def test_only_what_is_open_needs_no_token() -> None:
    without = {path for path, _, operation in operations() if operation.get("security") == []}

    assert without == set(OPEN_TABLE)
    assert all("401" in o["responses"] for path, _, o in operations() if path not in without)


@pytest.mark.parametrize(
    ("status", "header"), [("429", "Retry-After"), ("401", "WWW-Authenticate")]
)
def test_a_refusal_says_which_headers_it_has(status: str, header: str) -> None:
    answer = openapi()["paths"]["/v1/threads"]["post"]["responses"][status]

    assert answer["headers"][header]["required"]


def test_every_code_in_the_source_is_known_with_its_status() -> None:
    raised = {
        (code, int(status))
        for path in SOURCE.rglob("*.py")
        for status, code in re.findall(r'Problem\(\s*(\d{3}),\s*"(\w+)"', path.read_text())
    }

    assert {(code, status) for code, status in raised if STATUS.get(code) != status} == set()


def _text(document: dict[str, Any]) -> str:
    return str(document).replace("'", '"')
