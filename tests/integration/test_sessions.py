"""Sessions that are gone, poisoned, or lose the ground under them, with the real CLI."""

import shutil
import sqlite3

import trio

from tests.kit.apart import Apart
from tests.kit.person import Seen, faults
from tests.kit.program import Program


def notices(seen: Seen) -> list[str]:
    return [str(notice["code"]) for notice in seen.notices()]


def transcripts(world: Apart) -> list[str]:
    """Return the ids of the sessions on disk."""
    return [path.stem for path in (world.place / "bot" / "claude").glob("*/projects/*/*.jsonl")]


def retired(world: Apart) -> list[tuple[str, str]]:
    """Return what the journal keeps of sessions that are not resumed again: thread and id."""
    with sqlite3.connect(world.place / "bot" / "journal.db") as journal:
        return journal.execute("SELECT thread_id, session_id FROM retired_sessions").fetchall()


async def vanished(bot: Program, times: int) -> None:
    """Return when so many sessions have found their directory gone."""
    with trio.fail_after(30):
        while bot.stdout.count("cannot be reached any more") < times:  # noqa: ASYNC110  # a file
            await trio.sleep(0.05)


async def test_a_session_that_the_cli_has_lost_is_followed_by_one_that_knows_the_thread(
    parted: Apart,
) -> None:
    """Field case 7.5: one notice, the thread's last words, the new id in the old one's place."""
    bot = parted.start_bot()
    assert (await parted.talk.ask("the word is swordfish")).text() == "echo: the word is swordfish"
    [old] = transcripts(parted)
    await bot.stop()
    shutil.rmtree(parted.place / "bot" / "claude")

    bot = parted.start_bot()
    seen = await parted.talk.ask("what was it?")
    assert notices(seen) == ["session_lost"]
    assert "> the word is swordfish" in seen.text()  # the scripted model repeats its prompt
    assert "You answered:\n> echo: the word is swordfish" in seen.text()
    assert seen.text().endswith("what was it?")
    assert not faults(seen)
    assert retired(parted) == [(parted.talk.thread_id, old)]
    await bot.stop()

    parted.start_bot()
    again = await parted.talk.ask("and now?")
    assert (again.text(), notices(again)) == ("echo: and now?", [])
    assert old not in transcripts(parted)


async def test_a_session_that_fails_alike_each_time_is_given_up(parted: Apart) -> None:
    """Field case 7.6: resumed, it fails twice; then a new one answers, and knows the thread."""
    bot = parted.start_bot()
    await parted.talk.ask("the word is swordfish")
    [old] = transcripts(parted)
    await bot.stop()

    parted.start_bot()
    first = await parted.talk.ask("%%error 400")
    assert (first.statuses(), notices(first)) == (["failed"], ["bad_request"])
    second = await parted.talk.ask("%%error 400")
    assert second.statuses() == ["failed"]
    assert notices(second) == ["session_given_up", "bad_request"]
    third = await parted.talk.ask("what was it?")

    assert (third.statuses(), notices(third)) == (["completed"], [])
    assert "> the word is swordfish" in third.text()
    assert retired(parted) == [(parted.talk.thread_id, old)]
    assert (await parted.talk.ask("well")).text() == "echo: well"
    assert not faults(first) + faults(second) + faults(third)


async def test_a_limit_is_no_reason_to_give_a_session_up(parted: Apart) -> None:
    """Field case 7.6: nor an overload; the conversation goes on afterwards."""
    bot = parted.start_bot()
    await parted.talk.ask("the word is swordfish")
    await bot.stop()

    parted.start_bot()
    for status in (429, 429, 403, 403, 529, 529):
        assert (await parted.talk.ask(f"%%error {status}")).statuses() == ["failed"]
    seen = await parted.talk.ask("well?")

    assert (seen.text(), notices(seen)) == ("echo: well?", [])
    assert retired(parted) == []


async def test_a_working_directory_that_vanishes_is_told_and_may_come_back(parted: Apart) -> None:
    """Field case 10.10: in a turn, at rest, and back, with one process of scuba throughout."""
    cwd = parted.place / "ground"
    cwd.mkdir()
    bot = parted.start_bot(parted.config(claude={"cwd": str(cwd)}))
    at = await parted.talk.say("%%say one two\n%%sleep 60")
    await parted.talk.said(at, "two")
    cwd.rmdir()
    active = await parted.talk.answered(at)
    missing = await parted.talk.ask("anybody?")
    cwd.mkdir()
    back = await parted.talk.ask("and now?")
    cwd.rename(parted.place / "away")  # while it is at rest: nobody hears of it
    await vanished(bot, times=2)
    idle = await parted.talk.ask("still there?")
    (parted.place / "away").rename(cwd)
    again = await parted.talk.ask("here again?")

    assert [one.statuses() for one in (active, missing, idle)] == [["failed"]] * 3
    assert [notices(one) for one in (active, missing, idle)] == [["bad_cwd"]] * 3
    assert (back.text(), again.text()) == ("echo: and now?", "echo: here again?")
    told = [str(notice["text"]) for one in (active, missing, idle) for notice in one.notices()]
    assert all("working directory" in text and "claude.cwd" in text for text in told)
    assert not any(str(parted.place) in str(one) for one in (active, missing, idle))
    assert bot.running
    assert not faults(active) + faults(missing) + faults(idle)
