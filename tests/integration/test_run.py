"""`scuba run` and what keeps it from running: each cause told once, each with its own exit code."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.kit.person import Person
from tests.kit.program import Running, Start, run

TOKEN = "BOT_TOKEN"
NOWHERE = "http://127.0.0.1:1"


def settings(place: Path, url: str, bot: str, token: object = None, **more: Any) -> str:  # noqa: ANN401  # JSON
    bubble = {"url": url, "principalId": bot, "token": token or {"env": TOKEN}}
    path = place / "bot.json"
    path.write_text(json.dumps({"bubble": bubble, "stateDir": str(place / "bot"), **more}))
    return str(path)


async def test_a_token_of_somebody_else_is_refused_naming_both(
    scuba: Running, me: Person, place: Path
) -> None:
    bot, token = await me.new_bot()
    config = settings(place, scuba.facts["url"], "bot-somebody-else")

    done = run(place, "run", "--config", config, env={TOKEN: token})

    assert done.returncode == 77, done
    assert bot in done.stderr
    assert "bot-somebody-else" in done.stderr
    assert token not in done.stdout + done.stderr


async def test_a_revoked_token_is_refused(scuba: Running, me: Person, place: Path) -> None:
    bot, token = await me.new_bot()
    answer = await me.http.delete(f"/v1/principals/{bot}/tokens")
    assert answer.status_code == 204
    config = settings(place, scuba.facts["url"], bot)

    done = run(place, "run", "--config", config, env={TOKEN: token})

    assert done.returncode == 77, done
    assert bot in done.stderr
    assert token not in done.stdout + done.stderr


async def test_a_token_revoked_under_a_running_bot_ends_it(
    scuba: Running, me: Person, place: Path, start: Start
) -> None:
    """A supervisor must not try again with it: the exit code says so."""
    bot, token = await me.new_bot()
    thread = await me.new_thread(bot)
    config = settings(place, scuba.facts["url"], bot)
    program = start(place, "run", "--config", config, env={TOKEN: token})
    await program.says("thread started")

    await me.http.delete(f"/v1/principals/{bot}/tokens")
    code = await program.ended()

    assert code == 77, program.told()
    assert token not in program.stdout + program.stderr
    assert thread.thread_id in program.stdout


def test_a_wrong_configuration_is_one_error_with_all_that_is_wrong(place: Path) -> None:
    """Field case 11.2: with and without starting."""
    path = place / "bad.json"
    path.write_text(
        json.dumps(
            {
                "bubble": {"url": NOWHERE, "principalID": 7, "token": ""},
                "backlogg": {},
                "backlog": {"maxReplay": -1},
                "logger": {"level": "loud", "pretty": "yes"},
            }
        )
    )

    done = run(place, "run", "--config", str(path))
    checked = run(place, "run", "--config", str(path), "--check")

    assert done.returncode == checked.returncode == 78
    assert done.stderr == checked.stderr
    for place_of_mistake in (
        "bubble.principalID",
        "bubble.principalId",
        "bubble.token",
        "backlogg",
        "backlog.maxReplay",
        "logger.level",
        "logger.pretty",
    ):
        assert f"{place_of_mistake}: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_without_a_token_nothing_is_asked_and_the_variable_is_named(
    place: Path, value: str | None
) -> None:
    """Field case 11.1."""
    config = settings(place, NOWHERE, "bot-x")

    done = run(place, "run", "--config", config, env={} if value is None else {TOKEN: value})

    assert done.returncode == 78, done
    assert TOKEN in done.stderr


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_without_a_token_in_it_the_file_is_named(place: Path, content: str | None) -> None:
    """Field case 11.1."""
    if content is not None:
        (place / "secret").write_text(content)
    config = settings(place, NOWHERE, "bot-x", {"file": "secret"})

    done = run(place, "run", "--config", config)

    assert done.returncode == 78, done
    assert str(place / "secret") in done.stderr


async def test_white_space_round_a_token_is_dropped_and_one_process_has_the_state(
    scuba: Running, me: Person, place: Path, start: Start
) -> None:
    """Field case 11.1: a file that an editor ended with a line feed. A second bot is refused."""
    bot, token = await me.new_bot()
    await me.new_thread(bot)
    (place / "secret").write_text(f" {token}\r\n")
    config = settings(place, scuba.facts["url"], bot, {"file": "secret"})
    program = start(place, "run", "--config", config)
    await program.says("thread started")

    second = run(place, "run", "--config", config)
    stopped = await program.stop()

    assert second.returncode == 73, second
    assert str(program.pid) in second.stderr
    assert str(place / "bot") in second.stderr
    assert (stopped.code, stopped.left) == (0, frozenset()), program.told()


def test_a_second_local_scuba_is_told_who_is_there(scuba: Running) -> None:
    done = run(scuba.place, "--model", "scripted", "--port", "0")

    assert done.returncode == 73, done
    assert str(scuba.program.pid) in done.stderr


def test_an_occupied_port_is_one_clear_error(scuba: Running, place: Path) -> None:
    port = scuba.facts["url"].rpartition(":")[2].strip("/")

    done = run(place, "--model", "scripted", "--port", port)

    assert done.returncode not in (0, 64, 77), done
    assert port in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--prot", "1"],
        ["--port", "70000"],
        ["--cwd", "/nowhere/at/all"],
        ["frobnicate"],
        ["say", "main"],
        ["run", "--config"],
        ["say", "No Thread", "text"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_exit_code_64(scuba: Running, args: list[str]) -> None:
    done = run(scuba.place, *args)

    assert done.returncode == 64, done
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_absent_server_is_tried_until_a_signal(
    place: Path, start: Start, number: signal.Signals
) -> None:
    config = settings(place, NOWHERE, "bot-x")
    program = start(place, "run", "--config", config, env={TOKEN: f"bubble_agent_{'x' * 43}"})
    await program.says("cannot reach the server yet")
    assert program.running

    stopped = await program.stop(number)

    assert stopped.code == 0, program.told()
    assert stopped.took_s < 5


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("cwd", "missing"),
        ("cwd", "a file"),
        ("cliPath", "missing"),
        ("cliPath", "a file"),
        ("cliPath", "a directory"),
    ],
)
def test_an_unusable_path_is_found_at_the_start(place: Path, key: str, wrong: str) -> None:
    """Field case 10.7: named with its setting and its true cause."""
    path = place / "there"
    if wrong == "a file":
        path.write_text("not a program")
    if wrong == "a directory":
        path.mkdir()
    config = settings(place, NOWHERE, "bot-x", claude={key: str(path)})

    done = run(place, "run", "--config", config, env={TOKEN: "x" * 20})

    assert done.returncode == 78, done
    assert f"claude.{key}: {path} " in done.stderr
