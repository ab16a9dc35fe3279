"""kill -9 of the bot: nothing that it started outlives it by more than seconds."""

import json
import signal

from tests.kit.apart import Apart
from tests.kit.processes import assert_none_left

NAP = "sleep 94.75"
WITHIN_S = 8.0


async def test_a_killed_bot_leaves_no_cli_and_no_tool(parted: Apart) -> None:
    """Field case 10.1: three sessions, one says a text, one is in a tool, one waits for a yes."""
    bot = parted.start_bot()
    await bot.says("thread started")
    texts = parted.talk
    tools, asks = [await parted.me.new_thread(parted.bot_id) for _ in range(2)]
    await texts.said(await texts.say("%%say one two\n%%sleep 60\n%%say three"), "two")
    call = json.dumps({"command": f"setsid {NAP} & {NAP} && touch too-late"})
    await tools.allow(await tools.asked(await tools.say(f"%%tool Bash {call}")))
    await asks.asked(await asks.say('%%tool Bash {"command": "touch asked"}'))
    await bot.runs(NAP, 2)
    family = bot.family()
    assert len(family) >= 6  # three CLIs, two naps, the guard

    bot.send(signal.SIGKILL)
    await bot.ended()

    await assert_none_left(family, WITHIN_S)
    await assert_none_left(bot.family(), 0)
    assert not (parted.place / "work" / "too-late").exists()


async def test_a_bot_killed_with_its_guard_is_cleared_up_by_the_next_start(parted: Apart) -> None:
    """Field case 10.1: before anything is resumed; the tool that ran on is gone."""
    bot = parted.start_bot()
    await bot.says("thread started")
    # A command that begins with a long sleep is refused by the CLI.
    call = json.dumps({"command": f"echo begun; {NAP} && touch too-late"})
    at = await parted.talk.say(f"%%tool Bash {call}")
    await parted.talk.allow(await parted.talk.asked(at))
    naps = await bot.runs(NAP, 1)
    for guard in await bot.runs("scuba.harness.guard", 1):
        guard.kill()
    bot.send(signal.SIGKILL)
    await bot.ended()
    assert any(nap.alive for nap in naps)

    again = parted.start_bot()
    await again.says("thread started")

    await assert_none_left(naps, 0)
    assert not (parted.place / "work" / "too-late").exists()
