"""A conversation from a terminal, with the commands that scuba itself printed."""

import re
import shlex

from tests.kit.person import Talk
from tests.kit.program import Running, run
from tests.kit.terminal import terminal


def printed(screen: str, verb: str) -> list[str]:
    """Return the arguments of the newest `scuba VERB …` that a screen shows."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in screen.split("\n")]
    command = [line for line in lines if line.startswith(f"scuba {verb} ")][-1]
    return shlex.split(command)[1:]


async def test_the_greeting_s_own_commands_work(scuba: Running, talk: Talk) -> None:
    greeting = scuba.program.stdout + scuba.program.stderr
    assert scuba.facts["url"] in greeting
    assert scuba.facts["userToken"] not in greeting

    with terminal(scuba.place, *printed(greeting, "tail")) as tail:
        said = run(scuba.place, *printed(greeting, "say"))
        await tail.shows("echo: Hello, what can you do here?")

    assert said.returncode == 0, said
    assert f"{scuba.bot}: echo: Hello, what can you do here?" in said.stdout
    assert (await talk.events())[-1]["type"] == "run_finished"


async def test_an_answer_is_seen_while_it_is_being_said(scuba: Running, talk: Talk) -> None:
    with terminal(scuba.place, "say", "main", "%%say first\n%%sleep 3\n%%say second") as say:
        screen = await say.shows("first")
        assert "second" not in screen
        code = await say.ended()

        assert "second" in say.screen
    assert code == 0


async def test_a_call_is_approved_with_the_command_that_is_shown(
    scuba: Running, talk: Talk
) -> None:
    script = (
        '%%say I will.\n%%tool Bash {"command": "echo by-$((6 * 7)) | tee approved"}\n%%say Did.'
    )
    with terminal(scuba.place, "say", "main", script) as say:
        screen = await say.shows("scuba deny main")
        assert "calls Bash" in screen
        assert not (scuba.work / "approved").exists()
        approve = printed(screen, "approve")

        approved = run(scuba.place, *approve)
        await say.shows("Did.")
        code = await say.ended()
        screen = say.screen

    assert approved.returncode == code == 0
    assert approve[-1] in approved.stdout
    assert "by-42" in screen
    assert f"{scuba.facts['userPrincipalId']} allows" in screen
    late = run(scuba.place, *approve)
    assert late.returncode == 1
    assert "no run in hand" in late.stderr


async def test_a_call_is_denied_with_the_command_that_is_shown(scuba: Running, talk: Talk) -> None:
    script = '%%tool Bash {"command": "touch denied"}\n%%say As you wish.'
    with terminal(scuba.place, "say", "main", script) as say:
        deny = printed(await say.shows("scuba deny main"), "deny")

        denied = run(scuba.place, *deny, "--reason", "it is late")
        await say.shows("As you wish.")
        await say.ended()
        screen = say.screen

    assert denied.returncode == 0, denied
    assert "denies" in screen
    assert "it is late" in screen
    assert not (scuba.work / "denied").exists()


async def test_an_input_is_changed_from_the_command_line(scuba: Running, talk: Talk) -> None:
    script = '%%tool Bash {"command": "touch from-the-model"}\n%%say Done.'
    with terminal(scuba.place, "say", "main", script) as say:
        approve = printed(await say.shows("scuba deny main"), "approve")
        changed = '{"command": "touch from-a-person"}'

        approved = run(scuba.place, *approve, "--input", changed)
        await say.shows("Done.")

    assert approved.returncode == 0, approved
    assert (scuba.work / "from-a-person").exists()
    assert not (scuba.work / "from-the-model").exists()


async def test_an_answer_is_stopped_and_say_tells_by_its_exit_code(
    scuba: Running, talk: Talk
) -> None:
    """Ctrl-C leaves the answer alone and tells how to stop it; that command stops it."""
    with (
        terminal(scuba.place, "say", "main", "%%say one\n%%sleep 60") as say,
        terminal(scuba.place, "say", "main", "afterwards") as waiting,
    ):
        await say.shows("one")
        say.press_ctrl_c()
        screen = await say.shows("to stop it: ")
        assert await say.ended() == 130
        assert await talk.in_hand()

        stop = screen.rpartition("to stop it: scuba ")[2].split()
        stopped = run(scuba.place, *stop)
        assert stopped.returncode == 0, stopped
        await waiting.shows("echo: afterwards")
        assert await waiting.ended() == 0
    with terminal(scuba.place, "say", "main", "%%say two\n%%sleep 60") as say:
        await say.shows("two")
        run(scuba.place, "interrupt", "main", "--reason", "never mind")
        assert await say.ended() == 1
        assert "never mind" in say.screen


async def test_the_threads_are_listed_and_the_newest_can_be_followed(
    scuba: Running, talk: Talk
) -> None:
    await talk.ask("an old word")
    listed = run(scuba.place, "threads")

    with terminal(scuba.place, "tail", talk.thread_id, "--last", "30") as tail:
        await tail.shows("echo: an old word")
        await talk.ask("a new word")
        await tail.shows("echo: a new word")
        tail.press_ctrl_c()
        assert await tail.ended() == 130

    (line,) = [line for line in listed.stdout.splitlines() if talk.thread_id in line]
    assert "owner" in line
    assert "(main)" in line


async def test_a_client_needs_no_environment_of_the_server(scuba: Running, talk: Talk) -> None:
    """Elsewhere it is told address and token; the token never stands in an argument."""
    secret = scuba.place / "my-token"
    secret.write_text(scuba.facts["userToken"])
    options = ["--url", scuba.facts["url"], "--token-file", str(secret)]
    elsewhere = {"HOME": str(scuba.place / "tmp")}

    said = run(scuba.place, "say", talk.thread_id, "from elsewhere", *options, env=elsewhere)
    unknown = run(scuba.place, "say", "main", "text", env=elsewhere)

    assert said.returncode == 0, said
    assert "echo: from elsewhere" in said.stdout
    assert unknown.returncode == 78
    assert "start `scuba` first" in unknown.stderr
