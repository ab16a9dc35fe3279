"""What holds for every test."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.kit.program import Program, Start

# Two cores shared by everything: how long an example takes says nothing about the code.
settings.register_profile("scuba", deadline=None)
settings.load_profile("scuba")

# A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start programs that end with the test."""
    programs: list[Program] = []

    def begin(*args: Any, **more: Any) -> Program:  # noqa: ANN401  # Program's own
        programs.append(Program(*args, **more))
        return programs[-1]

    yield begin
    for program in programs:
        program.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the longest test early: workers would wait for it at the end."""
    longest = [item for item in items if item.path.name == "test_soak.py"]
    for item in longest:
        items.remove(item)
    items[len(items) // 8 : len(items) // 8] = longest
