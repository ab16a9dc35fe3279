"""More than one process of one bot: refused on one state directory, harmless on two."""

import json
import os
from pathlib import Path

from tests.kit.apart import Apart
from tests.kit.person import faults


def on_another_directory(world: Apart) -> Path:
    """Return the settings of the same bot as somebody has them on another host."""
    path = world.config("other.json")
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "stateDir": str(world.place / "elsewhere")}))
    return path


async def test_a_second_process_on_one_directory_is_refused_and_told_by_whom(
    parted: Apart,
) -> None:
    """Field case 16.3: the first one goes on; killed, its place is free at once."""
    bot = parted.start_bot()
    await parted.talk.ask("hello")

    second = parted.start_bot()
    assert await second.ended() == 73
    assert f"in use by process {bot.pid}, started" in second.stderr
    assert (await parted.talk.ask("still there?")).text() == "echo: still there?"
    bot.close()

    third = parted.start_bot()
    assert (await parted.talk.ask("again")).text() == "echo: again"
    assert (await third.stop()).code == 0


async def test_a_lock_that_names_somebody_else_by_now_is_free(parted: Apart) -> None:
    """Field case 16.3: the pid in it is another program's today; the kernel knows who holds it."""
    state = parted.place / "bot"
    state.mkdir()
    lock = state / "lock"
    lock.write_text(json.dumps({"pid": os.getpid(), "startedAt": "2026-01-01T00:00:00Z"}))

    bot = parted.start_bot()

    assert (await parted.talk.ask("hello")).text() == "echo: hello"
    assert json.loads(lock.read_text())["pid"] == bot.pid


async def test_a_second_process_elsewhere_takes_nothing_of_the_first_for_its_own(
    parted: Apart,
) -> None:
    """Field case 16.3: it says so, ends no run of the other's, and no answer of the other's counts.

    The message is answered by both: that is what the warning is about.
    """
    first = parted.start_bot()
    call = json.dumps({"command": "echo ran >> ran"})
    at = await parted.talk.say(f"%%tool Bash {call}")
    asked = await parted.talk.asked(at)

    second = parted.start_bot(on_another_directory(parted))
    await second.says("1 other connections run as")
    await second.says(f"run {asked.run} is left as it is")
    other = await parted.talk.asked(at, 2)
    assert other.run != asked.run
    await parted.talk.allow(asked)
    seen = await parted.talk.answered(at)

    assert seen.statuses() == ["completed"]
    assert seen.outcomes() == {asked.call: "tool-output-available"}
    assert await parted.talk.in_hand() == [other.run]
    assert (await parted.talk.decide(other, "deny")).status_code == 201
    seen = await parted.talk.answered(at, runs=2)
    assert seen.outcomes()[other.call] == "tool-output-denied"
    assert (parted.place / "work" / "ran").read_text() == "ran\n"
    assert not faults(seen)
    assert (await second.stop()).code == 0
    assert (await first.stop()).code == 0
