"""Tools of ours in the real CLI: asked for like any other, called with their id, cancelled."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trio

from actors.harness import Decision, PermissionAsked, ToolReturned, TurnEnded
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.session import ClaudeSession
from scuba.harness.claude.settings import ClaudeSettings
from scuba.tools.port import Answer, Offer, Place
from tests.kit.claude_env import bare_environment, place
from tests.scuba.harness.claude.test_real_cli import settings, until

__all__ = ["bare_environment", "place", "settings"]

pytestmark = pytest.mark.usefixtures("bare_environment")

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}


class Box:
    """A toolbox with one tool that reads and one that writes; a call without a word is held."""

    offers = tuple(
        Offer(name=name, description=name, input_schema=SCHEMA, only_reads=name == "look")
        for name in ("look", "change")
    )

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any], Place]] = []
        self.cancelled: list[str] = []
        self.let_go = trio.Event()
        self.let_go.set()
        self.begun, self.stopped = trio.Event(), trio.Event()
        self.answer = Answer("seen")

    async def call(self, name: str, arguments: Mapping[str, Any], place: Place) -> Answer:
        self.calls.append((name, arguments, place))
        self.begun.set()
        try:
            if "word" not in arguments:
                await self.let_go.wait()
        except trio.Cancelled:
            self.cancelled.append(place.tool_call_id)
            self.stopped.set()
            raise
        return self.answer


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
async def session(settings: ClaudeSettings, box: Box) -> AsyncIterator[ClaudeSession]:
    with trio.fail_after(60):
        async with ClaudeHarness(settings).with_tools(box).open("thr_1", None) as session:
            yield session


def call(name: str, step: str = "tool", **arguments: str) -> str:
    return f"%%{step} mcp__bubble__{name} {json.dumps(arguments)}"


async def asked(session: ClaudeSession) -> PermissionAsked:
    said = await until(session, PermissionAsked)
    return next(item for item in said if isinstance(item, PermissionAsked))


async def test_a_call_runs_after_its_yes_with_the_id_it_was_asked_under(
    session: ClaudeSession, box: Box
) -> None:
    for name in ("look", "change"):
        await session.prompt(name, call(name, word="plum"))
        question = await asked(session)
        assert len(box.calls) == (name == "change")
        assert session.decide(question.tool_call_id, Decision(allowed=True))
        said = await until(session)

        where = Place(thread_id="thr_1", tool_call_id=question.tool_call_id)
        assert box.calls[-1] == (name, {"word": "plum"}, where)
        (returned,) = (item for item in said if isinstance(item, ToolReturned))
        assert "seen" in str(returned)


async def test_a_person_may_change_what_is_asked_or_deny_it(
    session: ClaudeSession, box: Box
) -> None:
    await session.prompt("p", f"{call('change', word='plum')}\n{call('change', word='quince')}")
    first = await asked(session)
    changed = Decision(allowed=True, updated_input={"word": "pear"})
    assert session.decide(first.tool_call_id, changed)
    second = await asked(session)
    assert session.decide(second.tool_call_id, Decision(allowed=False, message="no"))
    await until(session)

    assert [arguments for _, arguments, _ in box.calls] == [{"word": "pear"}]


async def test_an_interrupt_cancels_the_call_and_the_session_lives_on(
    session: ClaudeSession, box: Box
) -> None:
    """Field case 6.2: the HTTP call is cancelled by an interrupt."""
    box.let_go = trio.Event()
    await session.prompt("p", call("change"))
    question = await asked(session)
    session.decide(question.tool_call_id, Decision(allowed=True))
    await box.begun.wait()

    await session.interrupt("p")
    said = await until(session)
    assert said[-1] == TurnEnded(prompt_id="p", status="interrupted")
    await box.stopped.wait()
    assert box.cancelled == [question.tool_call_id]

    box.let_go.set()
    await session.prompt("q", call("change"))
    session.decide((await asked(session)).tool_call_id, Decision(allowed=True))
    said = await until(session)
    assert "seen" in str([item for item in said if isinstance(item, ToolReturned)])


async def test_a_failure_is_an_error_for_the_model(session: ClaudeSession, box: Box) -> None:
    """Field case 6.2."""
    box.answer = Answer("The server refuses (forbidden).", is_error=True)
    await session.prompt("p", f"{call('change')}\n%%say on")
    session.decide((await asked(session)).tool_call_id, Decision(allowed=True))
    said = await until(session)

    (returned,) = (item for item in said if isinstance(item, ToolReturned))
    assert returned.is_error
    assert "forbidden" in str(returned)
    assert said[-1] == TurnEnded(prompt_id="p", status="completed")


async def test_a_held_call_holds_up_no_other_that_reads(session: ClaudeSession, box: Box) -> None:
    """Field case 6.1: other tools are used in parallel."""
    box.let_go = trio.Event()
    await session.prompt("p", f"{call('look', 'call')}\n{call('look', word='free')}")
    for _ in range(2):
        session.decide((await asked(session)).tool_call_id, Decision(allowed=True))
    said = await until(session, ToolReturned)

    assert not any(isinstance(item, TurnEnded) for item in said)
    assert len(box.calls) == 2
    box.let_go.set()
    await until(session)


async def test_a_session_that_closes_cancels_its_calls(settings: ClaudeSettings, box: Box) -> None:
    box.let_go = trio.Event()
    with trio.fail_after(60):
        async with ClaudeHarness(settings).with_tools(box).open("thr_1", None) as session:
            await session.prompt("p", call("change"))
            session.decide((await asked(session)).tool_call_id, Decision(allowed=True))
            await box.begun.wait()

    assert len(box.cancelled) == 1
