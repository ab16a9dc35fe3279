"""kill -9 and restart, with the real CLI: each message is answered once, whatever was cut."""

import json
import signal

import trio

from tests.kit.apart import Apart
from tests.kit.person import Seen, faults
from tests.kit.processes import assert_none_left
from tests.kit.program import Program

NAP = "sleep 95.5"


async def killed(bot: Program) -> None:
    """Kill it, and wait until its guard has ended what it had started."""
    family = bot.family()
    await trio.sleep(0.5)  # the CLI's transcript lags behind by a tenth of a second
    bot.send(signal.SIGKILL)
    await bot.ended()
    await assert_none_left(family, 30)


async def written(world: Apart, words: str) -> None:
    """Return when a transcript of the bot's holds these words."""
    found = (world.place / "bot" / "claude").rglob
    with trio.fail_after(30):
        while not any(words in path.read_text() for path in found("*.jsonl")):  # noqa: ASYNC110  # a file
            await trio.sleep(0.05)


def notices(seen: Seen) -> list[str]:
    return [str(notice["code"]) for notice in seen.notices()]


async def test_killed_in_a_text_the_agent_goes_on_and_nothing_is_asked_twice(parted: Apart) -> None:
    """Field cases 2.6 and 7.2."""
    bot = parted.start_bot()
    at = await parted.talk.say("%%say one two\n%%sleep 60\n%%say three")
    await parted.talk.said(at, "two")
    await killed(bot)

    parted.start_bot()
    seen = await parted.talk.answered(at, runs=2)

    assert seen.statuses() == ["interrupted", "completed"]
    assert notices(seen) == ["resumed"]
    assert seen.text().count("one two") == 1
    assert "You were stopped in the middle" in seen.text()  # the scripted model repeats its prompt
    assert not faults(seen)


async def test_killed_in_a_tool_it_does_not_run_again(parted: Apart) -> None:
    """Field case 7.2 (b)."""
    bot = parted.start_bot()
    call = json.dumps({"command": f"echo ran >> ran; {NAP}"})
    at = await parted.talk.say(f"%%tool Bash {call}")
    await parted.talk.allow(await parted.talk.asked(at))
    await bot.runs(NAP, 1)
    await killed(bot)

    parted.start_bot()
    seen = await parted.talk.answered(at, runs=2)

    assert seen.statuses() == ["interrupted", "completed"]
    assert (parted.place / "work" / "ran").read_text() == "ran\n"
    assert not faults(seen)


async def test_killed_while_a_decision_is_waited_for_it_is_said_to_be_off(parted: Apart) -> None:
    """Field cases 3.5 and 7.9: a late yes counts for nothing, not for a like call either."""
    bot = parted.start_bot()
    at = await parted.talk.say('%%tool Bash {"command": "touch asked"}')
    asked = await parted.talk.asked(at)
    await killed(bot)

    parted.start_bot()
    _, seen = await parted.talk.until(at, lambda seen: "completed" in seen.statuses(), "answer")
    await parted.talk.allow(asked)

    # Without us a CLI takes its question for denied, and may come to an end of its own.
    assert seen.statuses() in (["completed"], ["interrupted", "completed"])
    assert "approval_expired" in notices(seen)
    assert (await parted.talk.ask("hello")).text() == "echo: hello"
    again_at = await parted.talk.say('%%tool Bash {"command": "touch asked"}\n%%say well')
    again = await parted.talk.asked(again_at)
    assert again.call != asked.call
    assert not (parted.place / "work" / "asked").exists()
    await parted.talk.decide(again, "deny")
    assert (await parted.talk.answered(again_at)).text() == "well"
    assert not (parted.place / "work" / "asked").exists()


async def test_an_answer_that_never_arrived_is_published_and_nobody_is_asked(
    parted: Apart,
) -> None:
    """Field case 7.2 (c): the network was down when it was given."""
    bot = parted.start_bot()
    assert (await parted.talk.ask("first")).text() == "echo: first"
    at = await parted.talk.say("%%sleep 2\n%%say here it is")
    await parted.talk.started(at)
    parted.network.refuse()
    parted.network.drop()
    await written(parted, '"text":"here it is"')  # and nobody on the thread hears of it
    await killed(bot)
    parted.network.accept()

    parted.start_bot()
    seen = await parted.talk.answered(at)

    assert seen.statuses() == ["completed"]
    assert seen.text() == "here it is"
    assert not faults(seen)


async def test_what_waited_is_answered_after_the_kill_once(parted: Apart) -> None:
    """Field case 7.3."""
    bot = parted.start_bot()
    at = await parted.talk.say("%%say first\n%%sleep 60")
    await parted.talk.said(at, "first")
    await parted.talk.say("second")
    await parted.talk.say("third")
    await bot.says("run started")
    await trio.sleep(0.5)
    await killed(bot)

    parted.start_bot()
    seen = await parted.talk.answered(at, runs=3)

    assert seen.statuses() == ["interrupted", "completed", "completed"]
    assert seen.text().endswith("echo: second\n\nthird")
    assert (await parted.talk.ask("fourth")).text() == "echo: fourth"


async def test_a_turn_that_is_nearly_done_ends_before_the_stop(parted: Apart) -> None:
    """Field case 16.2: it needs some seconds; another one, and what waits, come back."""
    bot = parted.start_bot(parted.config(stop={"graceSeconds": 6}))
    other = await parted.me.new_thread(parted.bot_id)
    long_at = await other.say("%%say begun\n%%sleep 600\n%%say never")
    await other.said(long_at, "begun")
    at = await parted.talk.say("%%say one\n%%sleep 3\n%%say done")
    await parted.talk.said(at, "one")
    await parted.talk.say("waits")
    stopped = await bot.stop()

    assert (stopped.code, stopped.left) == (0, frozenset()), bot.told()
    assert (await parted.talk.answered(at, runs=1)).statuses() == ["completed"]
    assert (await other.answered(long_at, runs=1)).statuses() == ["interrupted"]

    parted.start_bot()
    seen = await parted.talk.answered(at, runs=2)
    assert seen.statuses() == ["completed", "completed"]
    assert seen.text().count("done") == 1
    assert "echo: waits" in seen.text()
    await other.answered(long_at, runs=2)
    assert not faults(seen)
