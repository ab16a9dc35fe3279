"""The network fails between a bot and its server: nothing is missed, nothing is done twice."""

import json

import pytest
import trio

from tests.kit.apart import Apart
from tests.kit.person import faults
from tests.kit.program import START_S

BACK_S = 90.0
"""For a socket to be back: the longest pause between two tries is 30 s, and it may be drawn."""
WORDS = [f"word{number}" for number in range(8)]
SLOW_TEXT = " ;; %%sleep 0.3 ;; ".join(f"%%say {word}" for word in WORDS)


async def test_a_text_arrives_whole_and_once_over_a_cut_socket(parted: Apart) -> None:
    """Field cases 2.7 and 8.6: cut again and again while it is being said."""
    parted.start_bot()
    at = await parted.talk.say(SLOW_TEXT)
    await parted.talk.said(at, "word0")
    for _ in range(3):
        parted.network.drop()
        await trio.sleep(0.5)

    seen = await parted.talk.answered(at)

    assert seen.text() == "".join(WORDS)
    assert seen.statuses() == ["completed"]
    assert not faults(await parted.talk.events())


async def test_what_is_said_during_an_outage_is_answered_after_it_once(parted: Apart) -> None:
    """Field cases 2.7 and 8.6: two messages wait in the log, and none from before is repeated."""
    bot = parted.start_bot()
    await parted.talk.ask("before")
    parted.network.refuse()
    parted.network.drop()
    at = await parted.talk.say("during alpha")
    await parted.talk.say("during beta")
    await bot.says("Bubble server")
    parted.network.accept()

    seen = await parted.talk.answered(at, within_s=BACK_S)
    await parted.talk.ask("after")
    everything = await parted.talk.events()

    assert seen.text().count("during alpha") == seen.text().count("during beta") == 1
    assert everything.text().count("echo: before") == 1
    assert not faults(everything)


async def test_an_approval_during_an_outage_is_found_and_the_tool_runs_once(
    parted: Apart,
) -> None:
    """Field case 3.4: the call was not asked twice, and its answer not lost."""
    parted.start_bot()
    call = json.dumps({"command": "echo ran >> ran"})
    at = await parted.talk.say(f"%%tool Bash {call}\n%%say ran it")
    asked = await parted.talk.asked(at)
    parted.network.refuse()
    parted.network.drop()
    await parted.talk.allow(asked)
    await trio.sleep(1)
    assert not (parted.place / "work" / "ran").exists()
    parted.network.accept()

    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.requests() == [asked]
    assert seen.outcomes() == {asked.call: "tool-output-available"}
    assert (parted.place / "work" / "ran").read_text() == "ran\n"
    assert not faults(await parted.talk.events())


async def test_an_unanswered_request_is_still_answerable_after_an_outage(parted: Apart) -> None:
    """Field case 3.4: it stands in the log once, as before."""
    parted.start_bot()
    at = await parted.talk.say('%%tool Bash {"command": "touch still"}')
    asked = await parted.talk.asked(at)
    tries = parted.network.connections
    parted.network.drop()
    with trio.fail_after(BACK_S):
        while parted.network.connections == tries:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.05)

    await parted.talk.allow(asked)
    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.requests() == [asked]
    assert (parted.place / "work" / "still").exists()


async def test_a_lost_receipt_doubles_no_event(parted: Apart) -> None:
    """Field case 2.4: the server has committed, the bot was not told, and says it again."""
    parted.start_bot()
    await parted.talk.ask("warm")
    at = await parted.talk.last_seq()
    parted.network.swallow(r"POST .*/events", times=4)
    await parted.talk.say(SLOW_TEXT)

    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.text() == "".join(WORDS)
    assert len(seen.runs()) == 1
    assert not faults(await parted.talk.events())


async def test_a_server_that_says_not_now_is_obeyed_and_gets_all(parted: Apart) -> None:
    """Field cases 2.4 and 2.5: 429 and 503 in the middle of a text."""
    parted.start_bot()
    await parted.talk.ask("warm")
    at = await parted.talk.say(SLOW_TEXT)
    await parted.talk.said(at, "word0")
    parted.network.answer(r"POST .*/events", 429, {"retry-after": "1"})
    parted.network.answer(r"POST .*/events", 503)

    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.text() == "".join(WORDS)
    assert not faults(await parted.talk.events())


@pytest.mark.slow
async def test_a_half_open_connection_is_noticed(parted: Apart) -> None:
    """Field cases 2.7 and 8.3: nothing comes, nothing is closed; both sides' waits end."""
    parted.start_bot()
    await parted.talk.ask("before")
    parted.network.pause()
    at = await parted.talk.say("into the silence")
    await trio.sleep(1)
    tries = parted.network.connections
    with trio.fail_after(BACK_S):
        while parted.network.connections == tries:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.2)
    parted.network.drop()
    parted.network.resume()

    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.text() == "echo: into the silence"
    assert not faults(await parted.talk.events())


@pytest.mark.slow
async def test_a_server_restarted_underneath_is_found_again(parted: Apart) -> None:
    """Field cases 2.7 and 3.4: session and parked call live on; what was said meanwhile counts."""
    bot = parted.start_bot()
    await parted.talk.ask("remember this")
    at = await parted.talk.say('%%tool Bash {"command": "touch survived"}')
    asked = await parted.talk.asked(at)
    children = bot.family()
    await parted.stop_server()
    await trio.sleep(1)
    await parted.start_server()

    await parted.talk.allow(asked)
    seen = await parted.talk.answered(at, within_s=BACK_S)
    recalled = await parted.talk.ask("%%recall")

    assert seen.requests() == [asked]
    assert (parted.place / "work" / "survived").exists()
    assert "touch survived" in recalled.text()
    assert children <= bot.family()
    assert not faults(await parted.talk.events())


@pytest.mark.slow
async def test_a_stop_without_a_server_still_ends_in_time(parted: Apart) -> None:
    """Field case 4.6: nobody can be told, no process is left; the next start tells."""
    nap = "sleep 91.5"
    bot = parted.start_bot()
    call = json.dumps({"command": f"setsid {nap} & {nap}"})
    at = await parted.talk.say(f"%%tool Bash {call}")
    await parted.talk.allow(await parted.talk.asked(at))
    await bot.runs(nap, 2)
    parted.network.refuse()
    parted.network.drop()

    stopped = await bot.stop()

    assert stopped.code == 0, bot.told()
    assert not stopped.left
    parted.network.accept()
    parted.start_bot()
    everything = await parted.talk.answered(at, runs=2)
    assert everything.statuses() == ["interrupted", "completed"]
    assert not faults(everything)


async def test_a_silent_server_at_the_start_does_not_hold_up_a_stop(parted: Apart) -> None:
    """It takes the connection and says nothing: the bot's question must not outlast a signal."""
    parted.network.pause("down")
    bot = parted.start_bot()
    with trio.fail_after(START_S):
        while not parted.network.requests:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.05)
    await trio.sleep(0.5)

    stopped = await bot.stop()

    assert stopped.code == 0, bot.told()
    assert stopped.took_s < 5
