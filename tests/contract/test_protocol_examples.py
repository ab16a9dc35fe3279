"""The examples of docs/protocol.md: each is what the description for programs says it is (15)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import compile_path

from scuba.server.description import document, openapi

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
BLOCK = re.compile(r"^```(?:json|http)?\n(.*?)^```", re.M | re.S)
CALL = re.compile(r"(GET|POST|PUT|PATCH|DELETE) (/v1/\S+)")
STATUS = re.compile(r"(\d{3})\b")


class Example(NamedTuple):
    """One JSON text of the page, and what it must be."""

    line: int
    value: dict[str, Any]
    schema: dict[str, Any]
    whole: bool
    """False when the page leaves something out of it."""


def objects(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each outermost JSON object begins and ends, and what stands before it."""
    depth, start, last, quoted, skip = 0, 0, 0, False, False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif depth and char == "\\":
            skip = True
        elif depth and char == '"':
            quoted = not quoted
        elif not quoted and char == "{":
            start = start if depth else at
            depth += 1
        elif not quoted and char == "}":
            depth -= 1
            if not depth:
                yield start, at + 1, text[last:start]
                last = at + 1


def without_gaps(text: str) -> str:
    """Return JSON whose places marked with … are closed; those within texts stay."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    told = "".join(p if p.startswith('"') else p.replace("…", "") for p in parts)
    told = re.sub(r",\s*(?=,)", "", told)
    return re.sub(r"([{\[])\s*,", r"\1", re.sub(r",\s*([}\]])", r"\1", told))


def schema_of(value: dict[str, Any], before: str, call: tuple[str, str] | None) -> dict[str, Any]:
    """Return the schema for an example, by its own type, or by the call that it belongs to."""
    kind = value.get("type")
    if isinstance(kind, str) and re.match(r"(client|server)\.", kind):
        return document(kind)
    if "payload" in value and "seq" in value:
        return document("Envelope")
    if str(kind).startswith("urn:bubble:error:"):
        return document("ProblemBody")
    if value.get("name") == "bubble":
        return document("Info")
    assert call is not None, before
    method, path = call
    item = next(
        told for form, told in openapi()["paths"].items() if compile_path(form)[0].match(path)
    )[method.lower()]
    if before.rfind("→") > before.rfind("←"):
        content = item["requestBody"]["content"]
    else:
        status = STATUS.search(before.rpartition("←")[2])
        responses = item["responses"]
        content = responses[status[1] if status else "200"]["content"]
    schema = next(iter(content.values()))["schema"]
    return {**schema, "components": openapi()["components"]}


def without_required(schema: Any) -> Any:  # noqa: ANN401  # JSON of any shape
    """Return a schema that asks for nothing, and judges what is there."""
    if isinstance(schema, dict):
        told = cast("dict[str, Any]", schema)
        kept = {k: v for k, v in told.items() if k != "required" or isinstance(v, dict)}
        return {name: without_required(inner) for name, inner in kept.items()}
    if isinstance(schema, list):
        return [without_required(inner) for inner in schema]
    return schema


def examples() -> Iterator[Example]:
    call: tuple[str, str] | None = None
    for block in BLOCK.finditer(TEXT):
        text = block[1]
        for start, end, before in objects(text):
            if (found := CALL.findall(before)) and found[-1]:
                call = (found[-1][0], found[-1][1].partition("?")[0].rstrip(","))
            elif "POST" not in before and "→" in before and text[start:].startswith('{"events"'):
                call = ("POST", "/v1/threads/t/events")
            raw = text[start:end]
            closed = without_gaps(raw)
            line = TEXT[: block.start(1) + start].count("\n") + 1
            value = json.loads(closed)
            yield Example(line, value, schema_of(value, before, call), closed == raw)


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line-{example.line}")
def test_an_example_is_as_described(example: Example) -> None:
    schema = example.schema if example.whole else without_required(example.schema)
    faults = Draft202012Validator(schema).iter_errors(example.value)

    assert [f"{fault.json_path}: {fault.message}" for fault in faults] == []


def test_there_are_examples_of_every_kind() -> None:
    kinds = {str(example.value.get("type")).partition(".")[0] for example in EXAMPLES}

    assert {"client", "server", "None", "tool_call_approval"} <= kinds
    assert len(EXAMPLES) > 30
