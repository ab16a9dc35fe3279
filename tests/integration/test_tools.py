"""An agent acts on Bubble by tools: the real Claude Code, the real server, one step after a yes."""

import json
from typing import Any

from tests.integration.test_aisdk import exported
from tests.kit.aisdk import fold
from tests.kit.person import Person, Seen, Talk
from tests.kit.program import Running


def tool(name: str, **arguments: object) -> str:
    return f"%%tool mcp__bubble__{name} {json.dumps(arguments)}"


async def called(talk: Talk, name: str, **arguments: object) -> str:
    """Have the agent call a tool, allow it, and return what the agent was told."""
    at = await talk.say(f"{tool(name, **arguments)}\n%%say so")
    await talk.allow(await talk.asked(at))
    return told(await talk.answered(at))


def told(seen: Seen) -> str:
    """Return the outcome of the last call."""
    outcome = [c for c in seen.chunks() if c["type"].startswith("tool-output-")][-1]
    return str(outcome.get("output") or outcome.get("errorText"))


async def test_an_agent_reads_its_thread_and_nothing_before_a_yes(
    scuba: Running, me: Person
) -> None:
    talk = await me.new_thread(scuba.bot)
    await talk.ask("the word is plum")

    answer = await called(talk, "browse_thread")

    assert "> the word is plum" in answer
    assert f"{me.principal_id} (user, owner)" in answer
    print(answer)
