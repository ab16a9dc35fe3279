"""What the server requires of a chunk is what the AI SDK's own schema requires of it (5.3)."""

from typing import Any

import pytest

from scuba.errors import Problem
from scuba.server.store.chunks import NEEDS, check_chunk
from tests.kit.aisdk import fold, lines

Json = dict[str, Any]


def whole(kind: str) -> Json:
    """Return a chunk with everything that its type requires."""
    needs = NEEDS[kind]
    chunk: Json = {"type": kind.replace("*", "x"), **dict.fromkeys(needs.texts, "x")}
    return {**chunk, **{name: {"any": ["thing"]} for name in needs.values}}


def broken(kind: str) -> dict[str, Json]:
    """Return such chunks with one thing wrong each, by what it is."""
    good, needs = whole(kind), NEEDS[kind]
    found = {f"{kind} without {name}": _without(good, name) for name in needs.texts + needs.values}
    return found | {f"{kind} with a number for {name}": {**good, name: 7} for name in needs.texts}


def _without(chunk: Json, name: str) -> Json:
    return {key: value for key, value in chunk.items() if key != name}


GOOD = {kind: whole(kind) for kind in NEEDS}
BAD = {name: chunk for kind in NEEDS for name, chunk in broken(kind).items()}


@pytest.fixture(scope="module")
def refused_by_sdk() -> set[str]:
    """The names of the chunks that the SDK's schema refuses, all asked at once."""
    chunks = (GOOD | BAD).items()
    part = {"seq": 1, "type": "message_part", "runId": "m"}
    log = [{**part, "threadId": name, "payload": {"chunk": chunk}} for name, chunk in chunks]
    verdicts = fold(lines(log))
    return {one.thread_id for one in verdicts if "schema refuses" in " ".join(one.faults)}


def refusal(chunk: Json) -> str | None:
    """Return the code with which the server refuses a chunk, None when it takes it."""
    try:
        check_chunk(chunk, "payload.chunk")
    except Problem as problem:
        return problem.code
    return None


@pytest.mark.parametrize("name", GOOD)
def test_a_chunk_with_all_it_needs_is_taken_by_both(refused_by_sdk: set[str], name: str) -> None:
    assert refusal(GOOD[name]) is None
    assert name not in refused_by_sdk


@pytest.mark.parametrize("name", BAD)
def test_a_chunk_that_lacks_something_is_refused_by_both(
    refused_by_sdk: set[str], name: str
) -> None:
    assert refusal(BAD[name]) == "invalid_chunk"
    assert name in refused_by_sdk
