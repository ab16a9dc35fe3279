"""Restarts: what is settled stays settled, and what a dead process left open is ended once."""

import signal

import trio

from tests.kit.apart import Apart
from tests.kit.person import Talk, faults, person
from tests.kit.processes import assert_none_left


async def test_what_was_handled_is_not_handled_again(parted: Apart) -> None:
    """Field case 7.1: five turns; a clean stop and a start; kill -9 and a start.

    Even without its journal: the log says what is answered.
    """
    bot = parted.start_bot()
    at = await parted.talk.last_seq()
    for number in range(5):
        await parted.talk.ask(f"turn {number}")
    assert (await bot.stop()).code == 0

    bot = parted.start_bot()
    await bot.says("thread started")
    assert (await parted.talk.ask("six")).text() == "echo: six"
    family = bot.family()
    bot.send(signal.SIGKILL)
    await bot.ended()
    await assert_none_left(family, 30)
    bot = parted.start_bot()
    assert (await parted.talk.ask("seven")).text() == "echo: seven"
    assert (await bot.stop()).code == 0
    for file in (parted.place / "bot").glob("journal.db*"):
        file.unlink()
    parted.start_bot()
    assert (await parted.talk.ask("eight")).text() == "echo: eight"

    seen = await parted.talk.events(at)
    assert seen.statuses() == ["completed"] * 8
    for number in range(5):
        assert seen.text().count(f"echo: turn {number}") == 1
    assert not faults(seen)


async def left_open(talk: Talk, run: str) -> None:
    """Leave a run open in the middle of a text, as whoever dies there."""
    answer = await talk.append(
        {"type": "run_started", "runId": run, "payload": {}},
        part(run, type="text-start", id="t1"),
        part(run, type="text-delta", id="t1", delta="half a"),
    )
    assert answer.status_code == 201, answer.text


def part(run: str, **chunk: str) -> dict[str, object]:
    return {"type": "message_part", "runId": run, "payload": {"chunk": chunk}}


async def test_runs_of_a_dead_process_are_ended_once_however_often_the_start_is_killed(
    parted: Apart,
) -> None:
    """Field case 7.7: one of the two is on a subthread; another bot's run is none of our business.

    There is no journal that knows them.
    """
    me, top = parted.me, parted.talk
    made = await me.http.post("/v1/threads", json={"title": "s", "parentThreadId": top.thread_id})
    assert made.status_code == 201, made.text
    sub = Talk(me, made.json()["thread"]["threadId"])
    await me.grant(sub.thread_id, parted.bot_id)
    other_id, other_token = await me.new_bot()
    await me.grant(top.thread_id, other_id)
    async with person(parted.url, parted.local["botToken"]) as dead:
        await left_open(top.seen_by(dead), "run_dead_1")
        await left_open(sub.seen_by(dead), "run_dead_2")
    async with person(parted.url, other_token) as other:
        await left_open(top.seen_by(other), "run_of_another")

    for moment_s in (0.5, 0.7, 0.8, 0.9, 1.0, 1.2):
        bot = parted.start_bot()
        await trio.sleep(moment_s)
        bot.send(signal.SIGKILL)
        await bot.ended()
    bot = parted.start_bot()
    for talk in (top, sub):
        await talk.answered(0)
    assert (await top.ask("hello")).text() == "echo: hello"
    assert (await bot.stop()).code == 0

    for talk, run in ((top, "run_dead_1"), (sub, "run_dead_2")):
        events = [event for event in await talk.events() if event.get("runId") == run]
        kinds = [event["payload"].get("chunk", event["payload"]) for event in events[3:]]
        assert [kind.get("type") or kind["status"] for kind in kinds] == ["text-end", "interrupted"]
        assert {event["principalId"] for event in events} == {parted.bot_id}
    events = [event for event in await top.events() if event.get("runId") == "run_of_another"]
    assert len(events) == 3
