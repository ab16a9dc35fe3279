"""One suite for both engines (17): what a test says of a world holds in either database."""

from inspect import iscoroutinefunction

import pytest

_BOUND = {"tmp_path", "shared", "postgres", "durable"}
"""Fixtures of tests that choose their engine themselves."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once on each engine, but for what is about a file, or about no store at all."""
    has_world = hasattr(metafunc.module, "open_world") and iscoroutinefunction(metafunc.function)
    if has_world and not _BOUND.intersection(metafunc.fixturenames):
        metafunc.parametrize("engine", ["sqlite", "postgres"], indirect=True)
