"""The running server against its own OpenAPI document, by requests that nobody thought of.

`SCUBA_FUZZ=200 pytest tests/contract/test_openapi.py` (`just fuzz`) looks longer.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from scuba.server.description import openapi
from tests.kit.served import Served, served

EXAMPLES = int(os.environ.get("SCUBA_FUZZ", "6"))
SEED = os.environ.get("SCUBA_SEED", "bubble")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
METHODS = ("get", "post", "put", "patch", "delete")
PATHS: dict[str, Any] = openapi()["paths"]
OPERATIONS = [
    (path, method) for path, item in PATHS.items() for method in METHODS if method in item
]
POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
FRUITFUL = [("/v1/threads", "post"), ("/v1/threads/{threadId}/subthreads", "post")]
"""What makes something out of a good request, or the rest says little."""
REAL = st.sampled_from([True, True, False])
QUIET = settings(
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Api:
    """A server, its document as it tells it, and what is really there."""

    def __init__(self, server: Served, session: requests.Session) -> None:
        self.url, self.session = server.url, session
        self.schema = schemathesis.openapi.from_url(server.url + "/v1/openapi.json")
        self.owner, self.stranger = server.owner_token, server.stranger_token
        self.tokens = [self.owner, self.owner, server.bot_token, self.stranger, None, "wrong"]
        self.seen: Counter[int] = Counter()
        artifact = self._make(f"/threads/{server.thread_id}/artifacts", name="a", mediaType="a/b")
        artifact_id = artifact["artifactId"]
        self._make(f"/artifacts/{artifact_id}/versions")
        self.real = {
            "threadId": server.thread_id,
            "principalId": "bot-research",
            "artifactId": artifact_id,
            "seq": 2,
            "version": 1,
        }
        spare = self._make("/threads")["thread"]["threadId"]
        self._make("/principals", principalId="bot-spare", kind="bot")
        self.spare = {**self.real, "threadId": spare, "principalId": "bot-spare"}

    def _make(self, path: str, **body: str) -> dict[str, Any]:
        asking = {"Authorization": f"Bearer {self.owner}"}
        answer = self.session.post(f"{self.url}/v1{path}", json=body, headers=asking, timeout=30)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def try_out(self, case: Case[Any], token: str | None, *, on_real_things: bool) -> None:
        """Send a request and judge the answer. Raises what schemathesis finds."""
        if on_real_things:
            # What is archived, disabled or taken away is of no use for what comes after it
            things = self.spare if case.method in ("PATCH", "DELETE") else self.real
            case.path_parameters |= {
                name: things[name] for name in case.path_parameters if name in things
            }
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = case.call(session=self.session, headers=headers, timeout=30)
        self.seen[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served() as server, requests.Session() as session:
        yield Api(server, session)
        assert server.alive()


def look(api: Api, path: str, method: str, mode: GenerationMode, examples: int = EXAMPLES) -> None:
    """Send requests of one operation, either such as fit its description or such as do not."""

    @seed(SEED)
    @settings(QUIET, max_examples=examples)
    @given(api.schema[path][method.upper()].as_strategy(mode), st.sampled_from(api.tokens), REAL)
    def one(case: Case[Any], token: str | None, real: bool) -> None:
        api.try_out(case, token, on_real_things=real)

    one()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_is_asked_well_is_answered_as_described(api: Api, path: str, method: str) -> None:
    look(api, path, method, POSITIVE)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (path, method)
        for path, method in OPERATIONS
        if {"parameters", "requestBody"} & {*PATHS[path], *PATHS[path][method]}
    ],
)
def test_what_is_asked_badly_is_answered_as_described(api: Api, path: str, method: str) -> None:
    look(api, path, method, NEGATIVE)


@pytest.mark.parametrize(("path", "method"), FRUITFUL)
def test_good_requests_get_somewhere(api: Api, path: str, method: str) -> None:
    api.seen.clear()
    look(api, path, method, POSITIVE, examples=20)

    assert api.seen[201] > 0, api.seen
