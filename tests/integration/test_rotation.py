"""A token that is rotated under a running bot, and what SIGHUP reads anew."""

import json
import signal
from pathlib import Path

from tests.kit.apart import Apart


def write_token(world: Apart, token: str) -> None:
    """Put a token where the bot's settings point, as whoever rotates it should: whole."""
    new = world.place / "token.new"
    new.write_text(token + "\n")
    new.replace(world.place / "token")


def config(world: Apart, level: str = "info") -> Path:
    bubble = json.loads(world.config().read_text())["bubble"]
    token = {"file": str(world.place / "token")}
    return world.config(bubble={**bubble, "token": token}, logger={"level": level})


async def rotate(world: Apart) -> str:
    """Mint a new token; the old one ends at once."""
    path = f"/v1/principals/{world.bot_id}/tokens"
    answer = await world.me.http.post(path, json={"revokeOthers": True})
    assert answer.status_code == 201
    return str(answer.json()["token"])


async def test_a_rotated_token_is_read_anew_and_the_session_goes_on(parted: Apart) -> None:
    """Field case 8.8: the old token is dead before the new one is in the file."""
    write_token(parted, parted.local["botToken"])
    bot = parted.start_bot(config(parted))
    assert (await parted.talk.ask("before")).text() == "echo: before"
    clis = await bot.runs("--session-id", 1)

    new = await rotate(parted)
    write_token(parted, new)

    assert "before" in (await parted.talk.ask("%%recall")).text()
    assert await bot.runs("--session-id", 1) == clis
    stopped = await bot.stop()
    assert stopped.code == 0, bot.told()
    assert "the token was read anew" in bot.stdout
    assert new not in bot.stdout + bot.stderr


async def test_a_new_token_of_another_bot_ends_it_for_good(parted: Apart) -> None:
    """Field case 8.8, the variant: nothing is said under another name."""
    write_token(parted, parted.local["botToken"])
    bot = parted.start_bot(config(parted))
    await parted.talk.ask("before")
    other, token = await parted.me.new_bot()

    write_token(parted, token)
    await rotate(parted)

    assert await bot.ended() == 77
    assert other in bot.stderr
    assert parted.bot_id in bot.stderr


async def test_sighup_reads_the_level_anew_and_a_mistake_changes_nothing(parted: Apart) -> None:
    write_token(parted, parted.local["botToken"])
    path = config(parted, "warning")
    bot = parted.start_bot(path)
    await parted.talk.ask("before")
    path.write_text("{")
    bot.send(signal.SIGHUP)
    await bot.says("not read anew")
    assert "run started" not in bot.stdout

    config(parted)
    bot.send(signal.SIGHUP)
    await bot.says("read anew: level")
    assert (await parted.talk.ask("after")).text() == "echo: after"

    assert "run started" in bot.stdout
