"""The machine round a bot: another agent's session, no login, a directory that goes away."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from tests.kit.apart import Apart
from tests.kit.person import Seen, Talk, person
from tests.kit.program import Running, Start, environ, local

MARKERS = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SSE_PORT": "23456",
    "CLAUDE_CODE_SESSION_ID": "a-parent-s-session",
    "CLAUDE_CONFIG_DIR": "/nowhere/of/a/parent",
    "AI_AGENT": "claude-code",
    "CODEX_THREAD_ID": "another-one",
    "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
PARENT_S = {f"{name}={value}" for name, value in MARKERS.items()}


async def test_scuba_works_inside_another_agent_s_session(start: Start, place: Path) -> None:
    """Field case 11.3: a session starts as usual, and neither it nor its tools see the parent."""
    program = start(place, *local(place), env=MARKERS)
    scuba = Running(program, place, await program.ready(place / "ready.json"))
    async with person(scuba.facts["url"], scuba.facts["userToken"]) as me:
        talk = Talk(me, scuba.facts["threadId"])
        at = await talk.say('%%tool Bash {"command": "env > env"}\n%%say as usual')
        await talk.allow(await talk.asked(at))
        seen = await talk.answered(at)
        variables = [environ(child.pid) for child in program.family()]

    assert seen.text() == "as usual"
    assert variables
    for inherited in [*variables, (scuba.work / "env").read_text().split("\n")]:
        # a tool's own shell is told by the CLI that it is in a session: the CLI's, not the parent's
        assert not (PARENT_S - {"CLAUDECODE=1", "AI_AGENT=claude-code"}) & set(inherited)
    assert not any("CLAUDECODE=1" in inherited for inherited in variables)


async def test_without_a_login_the_thread_is_told_and_the_bot_lives_on(
    start: Start, place: Path
) -> None:
    """Field case 10.8: no key, no login, no network; what to do is said, each time."""
    args = ["--port", "0", "--ready-file", str(place / "ready.json")]
    program = start(place, *args)
    facts = await program.ready(place / "ready.json")
    async with person(facts["url"], facts["userToken"]) as me:
        talk = Talk(me, facts["threadId"])
        answers: list[Seen] = [await talk.ask("hello"), await talk.ask("and now?")]
    stopped = await program.stop()

    for seen in answers:
        assert seen.statuses() == ["failed"]
        (notice,) = seen.notices()
        assert notice["code"] == "not_logged_in"
        assert "/login" in notice["text"]
        assert "ANTHROPIC_API_KEY" in notice["text"]
        assert not seen.text()
    assert "not_logged_in" in program.stdout
    assert (stopped.code, stopped.left) == (0, frozenset()), program.told()


async def test_a_directory_that_goes_away_is_told_without_its_name(parted: Apart) -> None:
    """Field case 10.7: the cause and the setting, no absolute path; back again, all is well."""
    cwd = parted.place / "gone"
    cwd.mkdir()
    bot = parted.start_bot(parted.config(claude={"cwd": str(cwd)}))
    await bot.says("thread started")
    shutil.rmtree(cwd)
    missing = await parted.talk.ask("hello?")
    cwd.write_text("a file")
    a_file = await parted.talk.ask("hello?")
    cwd.unlink()
    cwd.mkdir()
    back = await parted.talk.ask("hello?")

    for seen, cause in ((missing, "does not exist"), (a_file, "is not a directory")):
        assert seen.statuses() == ["failed"]
        (notice,) = seen.notices()
        assert cause in notice["text"]
        assert "claude.cwd" in notice["text"]
        assert str(parted.place) not in json.dumps(seen)
    assert str(cwd) in bot.stdout
    assert back.text() == "echo: hello?"


async def test_a_cli_that_cannot_be_run_is_told_without_its_name(
    parted: Apart,
) -> None:
    """Field case 10.7: gone after the start, not executable, and for another kind of machine."""
    cli = parted.place / "cli"
    cli.write_text("#!/bin/sh\n")
    cli.chmod(0o755)
    bot = parted.start_bot(parted.config(claude={"cliPath": str(cli)}))
    await bot.says("thread started")
    spoilers: tuple[Callable[[], None], ...] = (
        lambda: cli.chmod(0o644),
        cli.unlink,
        lambda: foreign(cli),
    )
    causes: list[str] = []
    for spoil in spoilers:
        spoil()
        seen = await parted.talk.ask("hello?")
        (notice,) = seen.notices()
        assert seen.statuses() == ["failed"]
        assert "claude.cliPath" in notice["text"]
        assert str(parted.place) not in json.dumps(seen)
        causes.append(notice["text"])

    assert "is not executable" in causes[0]
    assert "does not exist" in causes[1]
    assert "another kind of machine" in causes[2]
    assert bot.running


def foreign(path: Path) -> None:
    """Write a program of a machine that is not this one."""
    path.write_bytes(b"\x7fELF" + bytes(14) + b"\xfe\xca" + bytes(44))
    path.chmod(0o755)


async def test_a_cli_that_dies_is_told_and_the_next_message_resumes_the_session(
    parted: Apart,
) -> None:
    """Field cases 10.2 and 10.3: told on its own thread only; the other one goes on."""
    bot = parted.start_bot()
    other = await parted.me.new_thread(parted.bot_id)
    await other.ask("hello")
    before = bot.family()
    await parted.talk.ask("remember me")
    theirs = bot.family() - before
    at = await parted.talk.say("%%say one\n%%sleep 60")
    elsewhere = await other.say("%%say one\n%%sleep 2\n%%say two")
    await parted.talk.said(at, "one")
    await other.started(elsewhere)
    (cli,) = theirs
    os.kill(cli.pid, signal.SIGKILL)
    seen = await parted.talk.answered(at)
    recalled = await parted.talk.ask("%%recall")

    assert seen.statuses() == ["failed"]
    assert seen.notices()
    # The prompt that died with the CLI may not have reached its transcript; the one before has.
    assert recalled.text() in ("recall: %%say one\n%%sleep 60", "recall: remember me")
    assert (await other.answered(elsewhere)).text() == "onetwo"
    assert bot.running
