"""What keeps a session from starting is named: to people without paths, to operators with them."""

import errno
import os
import sys
from pathlib import Path

import pytest

from actors.ports import SessionFailed
from scuba.harness.claude.checks import check, could_not_start, ended_at_start, find_cli
from scuba.harness.claude.harness import ClaudeHarness
from scuba.harness.claude.settings import ClaudeSettings

pytestmark = pytest.mark.usefixtures("cli")


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    path = tmp_path / "claude"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def refused(cwd: Path, cli: Path | None) -> SessionFailed:
    settings = ClaudeSettings(cwd=cwd, state_dir=cwd, cli_path=cli)
    with pytest.raises(SessionFailed) as caught:
        ClaudeHarness(settings).check()
    failure = caught.value
    assert "/" not in failure.text.replace("claude.c", "")
    return failure


def test_a_missing_directory(tmp_path: Path, cli: Path) -> None:
    """Field case 10.7."""
    failure = refused(tmp_path / "gone", cli)

    assert failure.code == "bad_cwd"
    assert failure.text == (
        "The agent's working directory does not exist. Correct `claude.cwd` in scuba's settings."
    )
    assert str(tmp_path / "gone") in failure.detail


def test_a_directory_that_is_a_file(tmp_path: Path, cli: Path) -> None:
    """Field case 10.7."""
    assert "is not a directory" in refused(cli, cli).text


def test_a_directory_that_may_not_be_read(
    tmp_path: Path, cli: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case 10.7."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == cli)

    assert "may not be read" in refused(tmp_path, cli).text


def test_a_missing_cli(tmp_path: Path) -> None:
    """Field case 10.7."""
    failure = refused(tmp_path, tmp_path / "no-claude")

    assert failure.code == "bad_cli"
    assert "does not exist. Correct `claude.cliPath`" in failure.text


def test_a_cli_that_is_not_executable(tmp_path: Path, cli: Path) -> None:
    """Field case 10.7."""
    cli.chmod(0o644)

    assert "is not executable" in refused(tmp_path, cli).text


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF headers")
def test_a_cli_for_another_kind_of_machine(tmp_path: Path, cli: Path) -> None:
    """Field case 10.7."""
    header = bytearray(Path(sys.executable).read_bytes()[:64])
    header[18] ^= 0x55
    cli.write_bytes(header)

    assert "built for another kind of machine" in refused(tmp_path, cli).text


def test_no_cli_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case 10.7."""
    monkeypatch.setattr("scuba.harness.claude.checks.find_cli", lambda: None)

    assert "not installed" in refused(tmp_path, None).text


def test_the_sdks_own_cli_is_found_without_importing_the_sdk() -> None:
    found = find_cli()

    assert found is not None
    assert found.parts[-2:] == ("_bundled", "claude")


def test_all_well(tmp_path: Path, cli: Path) -> None:
    assert check(ClaudeSettings(cwd=tmp_path, state_dir=tmp_path, cli_path=cli)) == cli


def test_a_cli_the_system_refuses_to_run() -> None:
    """Field case 10.7."""
    failure = could_not_start(Path("/x/claude"), OSError(errno.ENOEXEC, "Exec format error"))

    assert "cannot be run on this machine" in failure.text
    assert "/x/" not in failure.text
    assert "/x/claude" in failure.detail


@pytest.mark.parametrize(
    ("returncode", "told", "code", "lost"),
    [
        (1, "No conversation found with session ID: x", "session_lost", True),
        (1, "Invalid API key · Please run /login", "not_logged_in", False),
        (1, "... cannot be used with root/sudo privileges", "bad_permission_mode", False),
        (0, "", "agent_start_failed", False),
        (-11, "", "agent_start_failed", False),
        (None, "no answer", "start_timeout", False),
    ],
)
def test_an_end_at_the_start(returncode: int | None, told: str, code: str, lost: bool) -> None:
    """Field cases 10.2 and 10.8."""
    failure = ended_at_start(returncode, "", [told, "/home/secret/path"])

    assert (failure.code, failure.lost_session) == (code, lost)
    assert "/home" not in failure.text
    assert "/home/secret/path" in failure.detail
