"""A person, Claude Code and its sub-agents: each sub-agent has a thread of its own."""

import json
import signal
from typing import Any

from tests.kit.apart import Apart
from tests.kit.person import Seen, Talk, faults
from tests.kit.program import Running


def bash(command: str) -> str:
    return f"%%tool Bash {json.dumps({'command': command})}"


def agent(script: str, *, step: str = "tool", background: bool = False) -> str:
    task = {"description": script[:20], "prompt": script, "subagent_type": "general-purpose"}
    return f"%%{step} Agent {json.dumps({**task, 'run_in_background': background})}"


async def test_a_sub_agent_works_on_a_thread_of_its_own(scuba: Running, talk: Talk) -> None:
    """Field case 5.1."""
    at = await talk.say(
        f"%%say before\n%%agent {bash('touch by-the-inner')} ;; %%say inner words\n%%say outer"
    )
    child = await child_of(talk, at)
    asked = await child.asked(0)
    assert not (scuba.work / "by-the-inner").exists()

    await child.allow(asked)
    seen = await talk.answered(at)
    inner = await child.answered(0)

    assert (scuba.work / "by-the-inner").exists()
    assert seen.text() == "beforeouter"
    assert [call["toolName"] for call in seen.chunks("tool-input-available")] == ["Agent"]
    assert set(seen.outcomes().values()) == {"tool-output-available"}
    assert "inner words" in str(seen.chunks("tool-output-available")[-1]["output"])
    assert inner.text() == "inner words"
    assert [call["toolName"] for call in inner.chunks("tool-input-available")] == ["Bash"]
    assert inner.statuses() == seen.statuses() == ["completed"]
    assert started(inner)["parent"] == {
        "threadId": talk.thread_id,
        "runId": seen.runs()[0],
        "toolCallId": seen.calls()[0].call,
    }
    assert faults(seen) == faults(inner) == []


async def test_in_background_the_answer_comes_first_and_the_report_has_a_run(talk: Talk) -> None:
    """Field cases 5.2 and 5.3."""
    at = await talk.say("%%background %%sleep 1.5 ;; %%say inner words\n%%say main words")
    child = await child_of(talk, at)

    first = await talk.answered(at)
    assert first.text() == "main words"
    assert [notice["code"] for notice in first.notices()] == ["still_running"]
    assert not (await child.events()).statuses()

    seen = await talk.answered(at, runs=2)
    inner = await child.answered(0)

    assert inner.text() == "inner words"
    assert inner.statuses() == ["completed"]
    assert seen.statuses() == ["completed", "completed"]
    woken = [one["payload"] for one in seen if one["type"] == "run_started"][1]
    assert woken["trigger"]["taskId"]
    assert faults(seen) == faults(inner) == []
    assert (await talk.ask("still there?")).text() == "echo: still there?"


async def test_two_in_parallel_are_asked_for_at_once_and_do_not_mix(
    scuba: Running, talk: Talk
) -> None:
    first = agent(f"{bash('touch of-one')} ;; %%say report one", step="call")
    second = agent(f"{bash('touch of-two')} ;; %%say report two")
    at = await talk.say(f"{first}\n{second}\n%%say both are done")
    one, two = await child_of(talk, at), await child_of(talk, at, 1)

    await two.allow(await two.asked(0))
    await two.answered(0)
    assert not (scuba.work / "of-one").exists()
    await one.allow(await one.asked(0))
    seen = await talk.answered(at)

    assert (await one.answered(0)).text() == "report one"
    assert (await two.answered(0)).text() == "report two"
    assert seen.text() == "both are done"
    assert (scuba.work / "of-one").exists()
    assert (scuba.work / "of-two").exists()


async def test_a_sub_agent_of_a_sub_agent_is_below_it(talk: Talk) -> None:
    at = await talk.say(f"%%agent {agent('%%say deepest')} ;; %%say middle\n%%say top")
    middle = await child_of(talk, at)
    deepest = await child_of(middle, 0)

    seen = await talk.answered(at)

    assert seen.text() == "top"
    assert (await middle.answered(0)).text() == "middle"
    below = await deepest.answered(0)
    assert below.text() == "deepest"
    assert started(below)["parent"]["threadId"] == middle.thread_id


async def test_one_sub_agent_is_stopped_and_the_agent_goes_on(talk: Talk) -> None:
    at = await talk.say("%%agent %%say begun ;; %%sleep 60 ;; %%say never\n%%say after all")
    child = await child_of(talk, at)
    run = await child.started(0)

    await child.interrupt(run)
    inner = await child.answered(0, within_s=10)
    seen = await talk.answered(at)

    assert inner.statuses() == ["interrupted"]
    assert "never" not in inner.text()
    assert seen.statuses() == ["completed"]
    assert seen.text() == "after all"


async def test_a_stop_of_the_run_stops_what_it_began_in_background(
    scuba: Running, talk: Talk
) -> None:
    """Field case 4.5: no report of theirs begins a run."""
    task = bash("sleep 3; touch of-the-background")
    at = await talk.say(f"%%background {task}\n%%background %%sleep 60\n%%say x ;; %%sleep 60")
    run = await talk.said(at, "x")
    one, two = await child_of(talk, at), await child_of(talk, at, 1)

    await talk.interrupt(run)
    seen = await talk.answered(at)

    assert seen.statuses() == ["interrupted"]
    for child in (one, two):
        if (await child.events()).runs():
            assert (await child.answered(0, within_s=10)).statuses() == ["interrupted"]
    assert (await talk.ask("next")).text() == "echo: next"
    assert not (scuba.work / "of-the-background").exists()


async def test_people_are_answered_while_a_sub_agent_works_in_background(talk: Talk) -> None:
    at = await talk.say("%%background %%sleep 2 ;; %%say inner\n%%say begun")
    child = await child_of(talk, at)
    await talk.answered(at)

    assert (await talk.ask("and this?")).text() == "echo: and this?"
    await child.say("hello there")

    inner = await child.answered(0, runs=2)
    seen = await talk.answered(at, runs=3)

    assert inner.statuses() == seen.statuses()[:2] == ["completed", "completed"]
    assert "echo: hello there" in inner.text()
    assert "hello there" not in seen.text()


async def test_a_command_in_background_reports_in_a_run_of_its_own(talk: Talk) -> None:
    command = {"command": "sleep 1; echo by and by", "run_in_background": True}
    at = await talk.say(f"%%tool Bash {json.dumps(command)}\n%%say begun")

    seen = await talk.answered(at, runs=2)

    assert seen.statuses() == ["completed", "completed"]


async def test_killed_with_a_sub_agent_both_runs_end_and_the_message_is_answered(
    parted: Apart,
) -> None:
    bot = parted.start_bot()
    talk = parted.talk
    at = await talk.say("%%agent %%say begun ;; %%sleep 60\n%%say after all")
    child = await child_of(talk, at)
    await child.started(0)
    bot.send(signal.SIGKILL)
    await bot.ended()

    parted.start_bot()
    inner = await child.answered(0)
    seen = await talk.answered(at, runs=2)

    assert inner.statuses() == ["interrupted"]
    assert seen.statuses() == ["interrupted", "completed"]
    assert faults(seen) == faults(inner) == []


async def test_stopped_with_a_sub_agent_in_background_its_run_ends_first(parted: Apart) -> None:
    bot = parted.start_bot()
    at = await parted.talk.say("%%background %%sleep 60\n%%say begun")
    child = await child_of(parted.talk, at)
    await child.started(0)
    await parted.talk.answered(at)

    stopped = await bot.stop()

    assert stopped.code == 0
    assert not stopped.left
    assert (await child.answered(0)).statuses() == ["interrupted"]


async def test_the_thread_of_a_sub_agent_that_is_done_takes_nothing_more(parted: Apart) -> None:
    parted.start_bot(parted.config(subthreads={"archiveAfter": 0.5}))
    at = await parted.talk.say("%%agent %%say inner\n%%say outer")
    child = await child_of(parted.talk, at)
    await child.answered(0)

    archived = await child.until(0, archived_in, "archived thread")

    assert archived
    refused = await child.append({"type": "message_part", "runId": "m", "payload": PART})
    assert refused.json()["code"] == "thread_archived"
    assert (await parted.talk.ask("and you?")).text() == "echo: and you?"


PART = {"chunk": {"type": "text-delta", "id": "t", "delta": "hello"}}


def archived_in(seen: Seen) -> bool:
    changes = (one["payload"] for one in seen if one["type"] == "thread_updated")
    return any(change.get("archivedAt") for change in changes)


def started(seen: Seen) -> dict[str, Any]:
    return next(one["payload"] for one in seen if one["type"] == "run_started")


def children(seen: Seen) -> list[str]:
    calls = seen.chunks("tool-input-available")
    assert all(
        call["childThreadId"] == call["toolMetadata"]["childThreadId"]
        for call in calls
        if call["toolName"] == "Agent"
    )
    return [call["childThreadId"] for call in calls if "childThreadId" in call]


async def child_of(talk: Talk, at: int, number: int = 0) -> Talk:
    """Return the thread of a sub-agent that was begun after `at`."""
    found, _ = await talk.until(at, lambda seen: children(seen)[number:], "sub-agent")
    return Talk(talk.who, found[0])
