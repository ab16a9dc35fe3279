"""Each field case that is acceptance has a test that names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ACCEPTANCE = """
1.3 1.4 1.5 1.6 1.7 1.8
2.1 2.2 2.3 2.4 2.5 2.6 2.7
3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10 3.11
4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9
5.1 5.2 5.3 5.4 5.5 5.6
6.1 6.2
7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 7.9
8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 8.9 8.10 8.11 8.12
9.1 9.2 9.3 9.4 9.6 9.7
10.1 10.2 10.3 10.4 10.5 10.6 10.7 10.8 10.9 10.10
11.1 11.2 11.3 11.4
12.1 12.2 12.3
13.1 13.2 13.3 13.4 13.5
14.1 14.2 14.3 14.4
16.1 16.2 16.3 16.4 16.5
"""
NAMED = re.compile(r"Field cases? ((?:\d+\.\d+(?:, | and )?)+)")


def named(docstring: str) -> set[str]:
    """Return the cases that a docstring names: "Field cases 3.10 and 4.3"."""
    text = " ".join(docstring.split())
    return {case for found in NAMED.findall(text) for case in re.findall(r"\d+\.\d+", found)}


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of the test functions in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test"
        ):
            yield ast.get_docstring(node) or ""


def covered() -> set[str]:
    """Return the cases that some test names."""
    files = TESTS.rglob("test_*.py")
    return set().union(*(named(text) for path in files for text in docstrings(path)))


def test_every_case_that_is_acceptance_is_named_by_a_test() -> None:
    missing = set(ACCEPTANCE.split()) - covered()

    assert not missing


@pytest.mark.parametrize(
    ("docstring", "cases"),
    [
        ("Field case 2.3: the promise.", {"2.3"}),
        ("Field cases 3.10 and 4.3.", {"3.10", "4.3"}),
        ("Field cases 9.1, 9.2 and\n    9.4: over a line.", {"9.1", "9.2", "9.4"}),
        ("Protocol 5.3, and field cases in general.", set()),
        ("", set()),
    ],
)
def test_cases_are_read_from_a_docstring(docstring: str, cases: set[str]) -> None:
    assert named(docstring) == cases
