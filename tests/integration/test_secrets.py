"""What leaves a running bot: never its token, and in its log no word of a conversation."""

import json
import os
import signal
from typing import Any

import pytest
import trio

from tests.kit.apart import Apart
from tests.kit.person import Seen, Talk
from tests.kit.processes import Process
from tests.kit.program import Program, argv, environ

IDS = ("threadId", "runId", "principalId", "seq")
PROMPT, INPUT, OUTPUT, REASON, THOUGHT = (
    f"marker-{name}" for name in ("prompt", "input", "output", "reason", "thought")
)


def cli_of(bot: Program) -> Process:
    """Return the process of the one session of a bot."""
    (cli,) = (one for one in bot.family() if one.argv.partition(" ")[0].endswith("claude"))
    return cli


async def eventful(talk: Talk, bot: Program) -> None:
    """Have turns of every kind: a tool allowed, denied and stopped, an error, a CLI that dies."""
    call = json.dumps({"command": f"touch {INPUT}; printf 'marker-%s' output"})
    tool = f"%%think {THOUGHT}\n%%say {PROMPT}\n%%tool Bash {call}\n%%say after"
    at = await talk.say(tool)
    await talk.allow(await talk.asked(at))
    await talk.answered(at)
    at = await talk.say(tool)
    await talk.decide(await talk.asked(at), "deny", reason=REASON)
    await talk.answered(at)
    at = await talk.say(tool)
    await talk.interrupt((await talk.asked(at)).run)
    await talk.answered(at)
    await talk.ask(f"{PROMPT}\n%%error 400")
    at = await talk.say(f"%%say {PROMPT}\n%%sleep 60")
    await talk.said(at, PROMPT)
    os.kill(cli_of(bot).pid, signal.SIGKILL)
    await talk.answered(at)
    await talk.ask(f"{PROMPT} once more")


def during_runs(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines that were written while a run was in hand, first and last included."""
    found: list[dict[str, Any]] = []
    inside = False
    for line in lines:
        inside = inside or line["message"] == "run started"
        if inside:
            found.append(line)
        inside = inside and line["message"] != "settled"
    return found


async def test_a_log_tells_whose_turn_it_was_and_nothing_that_was_said(parted: Apart) -> None:
    """Field case 12.2: at the default level, through refusals, errors and a CLI that is killed."""
    bot = parted.start_bot()
    await eventful(parted.talk, bot)
    stopped = await bot.stop()
    assert stopped.code == 0

    lines = bot.lines()
    turn = during_runs(lines)
    assert sum(line["message"] == "run started" for line in turn) == 6
    for line in turn:
        assert all(line.get(name) for name in IDS), line
        assert line["threadId"] == parted.talk.thread_id
        assert line["principalId"] == parted.bot_id
    assert "marker-" not in bot.stdout + bot.stderr
    assert {"time", "level", "logger", "message"} <= lines[0].keys()


@pytest.mark.parametrize("place_of_token", ["variable", "configuration"])
async def test_the_token_is_nowhere_but_where_it_was_put(
    parted: Apart, place_of_token: str
) -> None:
    """Field case 12.1: at the debug level, through errors of HTTP and socket, to a refusal."""
    token = str(parted.local["botToken"])
    in_variable = place_of_token == "variable"
    source = {"env": "BOT_TOKEN"} if in_variable else token
    config = parted.config(bubble={"token": source}, logger={"level": "debug"})
    bot = parted.start_bot(config, BOT_TOKEN=token if in_variable else "unused")
    at = await parted.talk.say('%%tool Bash {"command": "env > env; sleep 3 & sleep 2; cat env"}')
    await parted.talk.allow(await parted.talk.asked(at))
    with trio.fail_after(30):
        while len(bot.family()) < 2:  # noqa: ASYNC110  # nobody tells us
            await trio.sleep(0.02)
    for child in bot.family():
        assert not any(token in value for value in argv(child.pid) + environ(child.pid))
    assert not any(token in value for value in argv(bot.pid))
    parted.network.answer("POST .*/events", 503, body=f"Bearer {token}".encode(), times=2)
    parted.network.drop()
    await parted.talk.answered(at)
    await parted.me.http.delete(f"/v1/principals/{parted.bot_id}/tokens")

    code = await bot.ended()

    seen: Seen = await parted.talk.events()
    assert code == 77, bot.told()
    written = bot.stdout + bot.stderr
    assert len(written) > 500
    assert token not in written
    assert token not in json.dumps(seen)
    assert token not in (parted.place / "work" / "env").read_text()
    kept = [path for path in (parted.place / "bot").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if token.encode() in path.read_bytes()]
