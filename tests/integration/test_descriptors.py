"""Open files: after whatever comes and goes as many as before; and when they run out, it is said.

`DESCRIPTORS_ROUNDS=5` is the whole of field case 10.5; `just soak` does that.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.kit.apart import Apart
from tests.kit.claude_env import fake_cli
from tests.kit.person import Seen
from tests.kit.program import Program, Start, with_files
from tests.kit.watch import at_rest, files, hurried, without_sessions
from tests.soak.people import Ear, Room, open_ear

ROUNDS = int(os.environ.get("DESCRIPTORS_ROUNDS", "1"))
GRANTS, CRASHES, RECONNECTS = 60 * ROUNDS, 60 * ROUNDS, 200 * ROUNDS
LIMIT = 256
AT_ONCE = 3
SPARE = 2
"""Connections for calls: how many a turn needs at once is chance."""
SAY, DIE = "%%say m{n}-a", '[{{"say": "m{n}-a"}}, {{"kill": 9}}]'
BACK = b"the connection to the Bubble server works again"
FULL = "too many open files, the limit is {}: raise it with `ulimit -n`"


async def grant_and_revoke(parts: Apart, ear: Ear) -> None:
    """Grant, one turn, revoke, again and again on one thread."""
    talk = await parts.me.new_thread(None)
    async with Room(talk, parts.bot_id).open(ear) as room:
        for _ in range(GRANTS // AT_ONCE):
            await parts.me.grant(talk.thread_id, parts.bot_id)
            assert await room.turn(SAY) == "completed"
            await parts.me.revoke(talk.thread_id, parts.bot_id)
        assert not await room.judge(())


async def crash(parts: Apart, ear: Ear) -> None:
    """Have the CLI die amid a turn, and the next one answer; no death follows another at once."""
    talk = await parts.me.new_thread(parts.bot_id)
    async with Room(talk, parts.bot_id).open(ear) as room:
        for _ in range(CRASHES // AT_ONCE):
            assert await room.turn(DIE) == "failed"
            assert await room.turn(SAY) == "completed"
        assert not await room.judge(())
    await parts.me.revoke(talk.thread_id, parts.bot_id)


async def reconnect(parts: Apart, bot: Program) -> None:
    """Cut the connections as soon as the bot has its socket again."""
    for _ in range(RECONNECTS):
        at = bot.out_bytes
        parts.network.drop()
        with trio.fail_after(60):
            while BACK not in bot.wrote(at):  # noqa: ASYNC110  # a file
                await trio.sleep(0.005)


async def at_once(work: Callable[[], Awaitable[None]], times: int = AT_ONCE) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(times):
            nursery.start_soon(work)


@pytest.mark.slow
async def test_as_many_files_are_open_afterwards_as_before(parted: Apart) -> None:
    """Field case 10.5: grants, crashes and reconnects, within a soft limit of 256."""
    config = parted.config(
        claude={"cliPath": str(fake_cli(parted.place / "cli"))}, sessions={"idleHibernate": 1}
    )
    path = hurried(parted.place)
    bot = parted.start_bot(config, command=with_files(LIMIT), PYTHONPATH=path)
    await bot.says('"ready"')
    before = (await at_rest(parted, bot))["files"]
    async with open_ear(parted.url, parted.local["userToken"]) as ear:
        for block, times in (
            (partial(grant_and_revoke, parted, ear), AT_ONCE),
            (partial(crash, parted, ear), AT_ONCE),
            (partial(reconnect, parted, bot), 1),
        ):
            await at_once(block, times)
            held = await at_rest(parted, bot)
            assert held["files"] <= before + SPARE, block
            assert held["threads"] == 1

    assert held["reconnects"] >= RECONNECTS
    assert files(bot) <= before + SPARE
    assert "too many open files" not in bot.stdout
    assert (await bot.stop()).code == 0


@pytest.mark.parametrize("limit", [8, 13])
async def test_a_start_without_files_says_why_and_may_be_tried_again(
    parted: Apart, limit: int
) -> None:
    """Field case 10.5: one error, with the limit; the state directory and the journal are met."""
    bot = parted.start_bot(command=with_files(limit))

    assert await bot.ended() == 1
    assert FULL.format(limit) in bot.stderr
    assert "Traceback" not in bot.stdout + bot.stderr


async def test_an_agent_that_cannot_start_says_why_and_the_others_go_on(parted: Apart) -> None:
    """Field case 10.5: on the thread and in the log; when a session has ended, the next starts."""
    config = parted.config(
        claude={"cliPath": str(fake_cli(parted.place / "cli"))}, sessions={"idleHibernate": 2}
    )
    bot = parted.start_bot(config, command=with_files(24))
    other = await parted.me.new_thread(parted.bot_id)
    first = await parted.talk.say("%%say one ;; %%sleep 3 ;; %%say two")
    await parted.talk.said(first, "one")

    refused = await other.ask("anybody?")

    assert refused.statuses() == ["failed"]
    assert codes(refused) == ["too_many_files"]
    assert (await parted.talk.answered(first)).text() == "onetwo"
    await without_sessions(bot)
    assert (await other.ask("and now?")).text() == "echo: and now?"
    assert f"session failed: too_many_files: {FULL.format(24)}" in bot.stdout
    assert "the limit of open files is 24, and 40 sessions may take 200" in bot.stdout


def codes(seen: Seen) -> list[str]:
    return [str(notice["code"]) for notice in seen.notices()]


async def test_a_server_without_files_says_why(start: Start, place: Path) -> None:
    """Field case 10.5: a server ends as a bot does."""
    server: Program = start(place, "serve", "--port", "0", command=with_files(8))

    assert await server.ended() == 1
    assert FULL.format(8) in server.stderr
