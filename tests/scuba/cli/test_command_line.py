"""The command line from outside: exit codes, one clear error, help that loads nothing."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click
import pytest
import trio
from click.testing import CliRunner

from actors.ports import Refused, Unavailable
from scuba import __version__
from scuba.cli.exits import exit_code, run
from scuba.cli.root import COMMANDS, DANGEROUS, MODES, LazyGroup, root
from scuba.errors import ConfigError, IdentityRefused, ScubaError, StateInUse
from scuba.settings import PermissionMode

ROOT = Path(__file__).parents[3]
HEAVY = [
    "trio",
    "msgspec",
    "structlog",
    "rich",
    "httpx",
    "claude_agent_sdk",
    "sqlite3",
    "starlette",
]
BAD = {"bubble": {"url": "https://b.example", "principalID": 7, "token": ""}, "backlogg": {}}


def scuba(
    *args: str, cwd: Path, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    scrubbed = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
    }
    return subprocess.run(
        [sys.executable, "-m", "scuba", *args],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env=scrubbed | (env or {}),
    )


def loaded_by(args: Sequence[str], cwd: Path) -> set[str]:
    program = f"""
import sys
from scuba.cli.exits import exit_code
from scuba.cli.root import root
code = exit_code(root, {list(args)!r})
print(code, *sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    code, *modules = done.stderr.splitlines()[-1].split(" ")
    assert code == "0", done.stderr
    return set(modules)


@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_help_loads_nothing_that_takes_time(args: list[str], tmp_path: Path) -> None:
    """So `scuba --help` is there within 150 ms; what it waits for is Python and click."""
    modules = loaded_by(args, tmp_path)

    assert not modules & set(HEAVY)
    assert not {name for name in modules if name.startswith(("actors", "scuba.app"))}


def test_the_table_of_commands_is_true() -> None:
    assert isinstance(root, LazyGroup)
    with click.Context(root) as ctx:
        for name, (_, words) in COMMANDS.items():
            command = root.get_command(ctx, name)

            assert command is not None
            assert command.name == name
            assert command.get_short_help_str(limit=200) == words
        assert root.get_command(ctx, "nothing") is None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(root, [name, "--help"])

    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


def test_the_version_is_told(tmp_path: Path) -> None:
    done = scuba("--version", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, f"scuba, version {__version__}\n")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--nonsense"], "No such option"),
        (["--cwd", "/not/there"], "'/not/there' does not exist"),
        (["--port", "1", "threads"], "--port stands before threads"),
        (["--permission-mode", "bypassPermissions"], "add --allow-dangerous-bypass if that"),
        (["--permission-mode", "bypass"], "'bypass' is not one of"),
        (["say", "main"], "Missing argument 'TEXT'"),
        (["approve", "main", "t", "--input", "[1]", "--url", "u"], "--input must be an object"),
        (["approve", "main", "t", "--input", '{"a":1,}'], "--input has a trailing comma"),
    ],
)
def test_wrong_usage_ends_with_64(
    args: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SCUBA_TOKEN", "token-for-tests")
    monkeypatch.setenv("SCUBA_URL", "http://127.0.0.1:1")

    assert exit_code(root, args) == 64
    out, err = capsys.readouterr()
    assert expected in err
    assert out == ""


def test_a_bad_configuration_is_one_clear_error(tmp_path: Path) -> None:
    """Field case 11.2: exit code 78, every mistake, no traceback."""
    (tmp_path / "bad.json").write_text(json.dumps(BAD))
    done = scuba("run", "--config", "bad.json", cwd=tmp_path)

    assert done.returncode == 78
    assert done.stderr.startswith("error: the configuration bad.json has 4 mistakes:\n")
    assert "principalID: is not known; did you mean principalId?" in done.stderr
    assert "backlogg: is not known; did you mean backlog?" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_configuration_of_this_directory_is_found(tmp_path: Path) -> None:
    good = {
        "bubble": {
            "url": "https://b.example",
            "principalId": "bot-a",
            "token": {"env": "BOT_A_TOKEN"},
        }
    }
    missing = scuba("run", "--check", cwd=tmp_path)
    (tmp_path / "claude-scuba.config.json").write_text(json.dumps(good))
    unset = scuba("run", "--check", cwd=tmp_path)
    right = scuba("run", "--check", cwd=tmp_path, env={"BOT_A_TOKEN": "token-for-tests"})

    assert missing.returncode == 78
    assert "there is no claude-scuba.config.json in" in missing.stderr
    assert unset.returncode == 78
    assert "the environment variable BOT_A_TOKEN is not set" in unset.stderr
    assert right.returncode == 0
    assert right.stdout.startswith("claude-scuba.config.json is right: bot-a on https://b.ex")


def test_check_says_all_that_is_wrong_or_what_is_right(tmp_path: Path) -> None:
    """Field case 11.2: one error with every mistake, or a summary; and never a secret."""
    token = {"env": "BOT_A_TOKEN"}
    bad = {**BAD, "claude": {"cwd": "gone", "env": {"KEY": 5}}, "bubble": {"token": token}}
    good = {
        "bubble": {"url": "https://b.example", "principalId": "bot-a", "token": token},
        "claude": {"model": "sonnet", "env": {"ANTHROPIC_API_KEY": "sk-very-own"}},
        "threads": {"thr_1": {"permissionMode": "bypassPermissions", "allowDangerousBypass": True}},
    }
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    (tmp_path / "good.json").write_text(json.dumps(good))
    wrong = scuba("check", "--config", "bad.json", cwd=tmp_path)
    env = {"BOT_A_TOKEN": "token-for-tests"}
    right = scuba("check", "--config", "good.json", cwd=tmp_path, env=env)

    assert (wrong.returncode, wrong.stdout) == (78, "")
    assert wrong.stderr.splitlines() == [
        "error: the configuration bad.json has 6 mistakes:",
        "  bubble.url: is missing",
        "  bubble.principalId: is missing",
        "  backlogg: is not known; did you mean backlog?",
        "  claude.env.KEY: must be a text, not 5",
        "  bubble.token: no token: the environment variable BOT_A_TOKEN is not set",
        f"  claude.cwd: {tmp_path}/gone does not exist",
    ]
    assert (right.returncode, right.stderr) == (0, "")
    assert right.stdout.splitlines() == [
        "good.json is right: bot-a on https://b.example",
        f"  Claude Code: sonnet, permission mode default, in {tmp_path}",
        "  told otherwise: thr_1",
        "  beware: on thr_1 nobody is asked before a tool runs",
    ]


def test_the_permission_modes_of_the_command_line_are_those_of_the_settings() -> None:
    assert set(MODES) == set(get_args(PermissionMode))
    assert DANGEROUS in MODES


def test_a_held_state_directory_ends_with_73(tmp_path: Path) -> None:
    from scuba.journal import hold_state_dir

    with hold_state_dir(tmp_path / "state"):
        done = scuba("--port", "0", "--state-dir", "state", cwd=tmp_path)

    assert done.returncode == 73
    assert f"in use by process {os.getpid()}, started" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and never listening: nobody answers on it
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        env = {"SCUBA_URL": url, "SCUBA_TOKEN": "token-for-tests"}
        done = scuba("threads", cwd=tmp_path, env=env)

    assert done.returncode == 1
    assert done.stderr.startswith("error: the server cannot be used")
    assert "is it running" in done.stderr
    assert "token-for-tests" not in done.stdout + done.stderr


# --- how a command ends --------------------------------------------------------------------------


def ends(error: BaseException) -> tuple[int, str]:
    """Return the exit code and stderr of a command whose trio program raises `error`."""

    async def fail() -> None:
        raise error

    @click.command()
    def command() -> None:
        run(fail)

    runner = CliRunner()
    with runner.isolation() as (_, err, _):
        return exit_code(command, []), err.getvalue().decode()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ScubaError("it broke", "mend it"), 1),
        (StateInUse("held"), 73),
        (IdentityRefused("another"), 77),
        (ConfigError("wrong"), 78),
        (Unavailable("no answer"), 1),
        (Refused("thread_not_found", "no such thread", 404), 1),
        (Refused("unauthenticated", "who?", 401), 77),
        (KeyboardInterrupt(), 130),
        (BaseExceptionGroup("", [KeyboardInterrupt(), ExceptionGroup("", [ScubaError("x")])]), 1),
        (ExceptionGroup("", [ExceptionGroup("", [Unavailable("x"), ConfigError("y")])]), 78),
    ],
)
def test_what_is_expected_ends_with_its_code(error: BaseException, code: int) -> None:
    """A permanent failure is told before a passing one, and Ctrl-C last."""
    ended, said = ends(error)

    assert ended == code
    assert said == "" or said.startswith(("error: ", "\n"))


def test_the_hint_stands_below_the_error() -> None:
    assert ends(ScubaError("it broke", "mend it")) == (1, "error: it broke\n  mend it\n")


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), ExceptionGroup("", [ConfigError("x"), ValueError("a bug")])]
)
def test_what_nobody_expects_is_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        ends(error)


def test_a_number_that_a_command_returns_is_its_exit_code() -> None:
    async def three() -> int:
        await trio.lowlevel.checkpoint()
        return 3

    @click.command()
    def command() -> int:
        return run(three)

    assert exit_code(command, []) == 3


def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    program = """
import sys
import click
from scuba.cli.exits import exit_code, run
async def main():
    while True:
        click.echo("x" * 1000)
@click.command()
def command():
    run(main)
sys.exit(exit_code(command, []))
"""
    talker = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert talker.stdout is not None
    assert talker.stderr is not None
    with talker.stderr, talker.stdout:
        talker.stdout.read(10)
        talker.stdout.close()

        assert talker.wait(30) == 1
        assert talker.stderr.read() == b""


def test_a_piped_text_that_is_not_utf_8_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCUBA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SCUBA_TOKEN", "a-token-of-nobody")
    runner = CliRunner()
    with runner.isolation(input=b"caf\xe9") as (_, err, _):
        code = exit_code(root, ["say", "thr_a", "-"])

        assert code == 64
        assert err.getvalue().startswith(b"error: the text is not UTF-8")
