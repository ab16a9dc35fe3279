"""Chapter 17: each promise names the tests that show it, and pytest finds them, on both engines."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
STORE = "scuba/server/store"
PROMISES = """
Seqs have no gap
No answered event is lost
One key, one receipt
A batch is whole or nothing
A subscription at any place gets the rest
A cut socket changes nothing
After a revoke nothing lands
A dead token takes its sockets along
A stalled reader costs nobody else
Unseen and unknown answer alike
A restored store is another log
Both engines run one suite
Recorded runs fold with the AI SDK
Malformed frames and requests cost nobody anything
Nothing is answered that is not described
"""
"""How each begins in the table."""
ROW = re.compile(r"\| (?P<promise>[A-Z][^|]*) \| (?P<engines>both|any) \| (?P<tests>`[^|]*`) \|")


class Promise(NamedTuple):
    """A row of the table."""

    text: str
    on_both: bool
    tests: tuple[str, ...]


def promises() -> list[Promise]:
    """Return the rows of chapter 17."""
    text = (ROOT / "docs" / "protocol.md").read_text()
    chapter = text[text.index("\n## 17.") :]
    return [
        Promise(
            row["promise"], row["engines"] == "both", tuple(re.findall("`([^`]+)`", row["tests"]))
        )
        for row in ROW.finditer(chapter)
    ]


@pytest.fixture(scope="module")
def collected() -> dict[str, list[str]]:
    """The tests that pytest finds in the files named, each with the ids of its parameters."""
    named = {test.partition("::")[0] for promise in promises() for test in promise.tests}
    files = [str(ROOT / "tests" / file) for file in sorted({*named, STORE})]
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    found: dict[str, list[str]] = {}
    for line in told.stdout.splitlines():
        name, _, parameters = line.partition("[")
        if "::" in name:
            found.setdefault(name.removeprefix("tests/"), []).append(parameters.rstrip("]"))
    return found


def engines(parameters: list[str]) -> set[str]:
    """Return the engines that the ids of a test's parameters name."""
    told = " ".join(parameters).lower()
    return {engine for engine in ("sqlite", "postgres") if engine in told}


def test_every_promise_is_in_the_table() -> None:
    expected = PROMISES.strip().splitlines()
    told = [promise.text for promise in promises()]

    assert len(told) == len(expected)
    assert all(text.startswith(start) for text, start in zip(told, expected, strict=True)), told


@pytest.mark.parametrize("index", range(15), ids=lambda index: PROMISES.strip().splitlines()[index])
def test_a_promise_is_shown_by_tests_that_exist(
    collected: dict[str, list[str]], index: int
) -> None:
    promise = promises()[index]
    missing = [test for test in promise.tests if test not in collected]

    assert promise.tests
    assert not missing
    if promise.on_both:
        ran = [engines(collected[test]) for test in promise.tests]
        assert {"sqlite", "postgres"} in ran


def test_what_is_said_of_a_store_is_said_of_both_engines(collected: dict[str, list[str]]) -> None:
    """A test of the store names an engine together with the other, but for walks with a model."""
    named = {
        test: engines(parameters)
        for test, parameters in collected.items()
        if test.startswith(STORE) and "_rules.py" not in test and engines(parameters)
    }

    assert [test for test, found in named.items() if len(found) == 1] == []
    assert len(named) > 100
