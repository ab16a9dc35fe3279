"""Extensions: one exact match or none, and a schema text that says what the structs say (11.1)."""

import hashlib
import json
from typing import cast

import msgspec
import pytest

from scuba import wire

KINDS = (wire.NewArtifact, wire.Artifact, wire.ArtifactVersion, wire.ArtifactVersionAdded)
OURS = wire.Manifest(id="a", version="1.0.0", digest="sha256:00")


def bare(node: object, *, names: bool = False) -> object:
    """Return a schema without the words for people; `names` says that its keys are fields."""
    if isinstance(node, dict):
        return {
            name: bare(inner, names=name in ("properties", "$defs"))
            for name, inner in cast("dict[str, object]", node).items()
            if names or name not in ("title", "description")
        }
    return [bare(inner) for inner in cast("list[object]", node)] if isinstance(node, list) else node


def test_the_schema_text_says_what_the_structs_say() -> None:
    """A change of the structs is a new version of the extension, with a new digest."""
    _, definitions = msgspec.json.schema_components(KINDS, ref_template="#/$defs/{name}")
    schema = json.loads(wire.artifacts_schema())

    assert schema["$id"] == f"urn:bubble:extension:artifacts:{wire.ARTIFACTS.version}"
    assert schema["$defs"] == bare(definitions, names=True)


def test_the_manifest_is_of_this_schema_text() -> None:
    digest = hashlib.sha256(wire.artifacts_schema()).hexdigest()

    assert wire.ARTIFACTS.digest == f"sha256:{digest}"


def test_an_extension_is_loaded_on_an_exact_match() -> None:
    """Chapter 11.1."""
    others = [wire.Manifest(id="b", version="2.0.0", digest="sha256:11")]

    assert wire.loads(OURS, [*others, OURS])
    assert not wire.loads(OURS, others)
    assert not wire.loads(OURS, [])


@pytest.mark.parametrize(
    "offered",
    [
        {"id": "A"},
        {"id": "schedules"},
        {"version": "1.0.1"},
        {"version": "1"},
        {"version": "1.0.0 "},
        {"digest": "sha256:01"},
        {"digest": "00"},
        {"digest": "SHA256:00"},
    ],
    ids=str,
)
def test_anything_else_is_as_if_absent(offered: dict[str, str]) -> None:
    assert not wire.loads(OURS, [msgspec.structs.replace(OURS, **offered)])


def test_a_manifest_may_say_more_than_we_know() -> None:
    """Chapter 1.3."""
    told = b'{"id":"a","version":"1.0.0","digest":"sha256:00","docs":"https://example.org"}'

    assert wire.loads(OURS, [msgspec.json.decode(told, type=wire.Manifest)])
