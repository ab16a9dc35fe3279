"""Scuba as a newcomer runs it, shared by the tests that leave it as they found it."""

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import trio

from tests.kit.apart import Apart, apart
from tests.kit.person import Person, Talk, faults, person
from tests.kit.program import Program, Running, Start, local, private_place


@pytest.fixture(scope="module")
def scuba() -> Iterator[Running]:
    """`python -m scuba --model scripted`, one for all; also says so when it died of a test."""
    with private_place() as place:
        program = Program(place, *local(place))
        try:
            facts = trio.run(program.ready, place / "ready.json")
            yield Running(program, place, facts)
            assert program.running, program.told()
        finally:
            program.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A place for the programs of one test."""
    with private_place() as path:
        yield path


@pytest.fixture
async def me(scuba: Running) -> AsyncIterator[Person]:
    """The person whom the shared scuba was made for."""
    async with person(scuba.facts["url"], scuba.facts["userToken"]) as who:
        yield who


@pytest.fixture
async def talk(scuba: Running, me: Person) -> AsyncIterator[Talk]:
    """The first thread of the shared scuba. Afterwards all on it since then is well framed."""
    thread = Talk(me, scuba.facts["threadId"])
    begin = await thread.last_seq()
    yield thread
    await thread.settle()
    assert not faults(await thread.events(begin))


@pytest.fixture
async def parted(start: Start, place: Path) -> AsyncIterator[Apart]:
    """A server and a bot apart, with a network between them. The bot is not started yet."""
    async with apart(start, place) as world:
        yield world


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test what its scuba wrote."""
    report = yield
    running = getattr(item, "funcargs", {}).get("scuba")
    if report.failed and isinstance(running, Running):
        report.sections.append(("scuba wrote", running.program.told()))
    return report
