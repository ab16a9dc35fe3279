"""What a configuration says of agents, threads and money holds in real processes."""

import json
import sqlite3

import pytest

from tests.kit.apart import Apart
from tests.kit.person import Seen

ANSWER_USD = 0.02
"""Less than an answer costs, by the real CLI's count of a first request to the scripted model."""


def codes(seen: Seen) -> list[str]:
    return [str(notice["code"]) for notice in seen.notices()]


async def test_a_thread_costs_no_more_than_it_may_whatever_is_started_anew(parted: Apart) -> None:
    config = parted.config(budget={"perThreadUsd": 5 * ANSWER_USD / 2}, usage={"show": True})
    bot = parted.start_bot(config)
    first = await parted.talk.ask("one")
    cut = await parted.talk.ask("two")
    refused = await parted.talk.ask("three")
    await bot.stop()
    again = parted.start_bot(config)
    still = await parted.talk.ask("four")
    with sqlite3.connect(parted.place / "bot" / "journal.db") as journal:
        ((thread_id, cost_usd),) = journal.execute("SELECT thread_id, cost_usd FROM spent")

    assert (first.statuses(), codes(first)) == (["completed"], [])
    (used,) = (chunk["data"] for chunk in first.chunks("data-usage"))
    assert ANSWER_USD < used["costUsd"] < 5 * ANSWER_USD / 2
    assert used["inputTokens"] > 0
    assert [codes(seen) for seen in (cut, refused, still)] == [["thread_budget"]] * 3
    assert [seen.text() for seen in (refused, still)] == ["", ""]
    assert thread_id == parted.talk.thread_id
    assert f"has cost {cost_usd:.2f} US dollars" in refused.notices()[0]["text"]
    logged = [json.loads(line) for line in bot.stdout.splitlines()]
    lines = [line for line in logged if line["message"] == "turn used"]
    assert [line["threadId"] for line in lines] == [thread_id] * 2
    assert sum(line["costUsd"] for line in lines) == pytest.approx(cost_usd, abs=1e-5)
    assert "turn used" not in again.stdout


async def test_one_thread_is_run_otherwise_and_a_bypass_is_warned_about(parted: Apart) -> None:
    """Its model is on the thread, its directory is its own, and nobody is asked there."""
    elsewhere = parted.place / "elsewhere"
    elsewhere.mkdir()
    told = {
        "model": "claude-haiku-4-5",
        "cwd": str(elsewhere),
        "permissionMode": "bypassPermissions",
        "allowDangerousBypass": True,
        "env": {"IS_SANDBOX": "1"},
    }
    config = parted.config(threads={parted.talk.thread_id: told})
    bot = parted.start_bot(config)
    seen = await parted.talk.ask('%%tool Bash {"command": "touch made"}\n%%say done')
    (started,) = (event for event in seen if event["type"] == "run_started")

    assert (seen.statuses(), seen.text(), seen.requests()) == (["completed"], "done", [])
    assert started["payload"]["agent"]["model"] == "claude-haiku-4-5"
    assert (elsewhere / "made").exists()
    assert f"on {parted.talk.thread_id} every tool runs without anybody's yes" in bot.stdout


async def test_a_turn_of_its_own_budget_each(parted: Apart) -> None:
    """The session is opened anew for each answer, and remembers."""
    bot = parted.start_bot(parted.config(claude={"maxBudgetUsd": 2 * ANSWER_USD * 2}))
    answers = [await parted.talk.ask(text) for text in ("one", "two", "%%recall")]

    assert [seen.text() for seen in answers] == ["echo: one", "echo: two", "recall: two"]
    assert [codes(seen) for seen in answers] == [[], [], []]
    assert "session failed" not in bot.stdout
