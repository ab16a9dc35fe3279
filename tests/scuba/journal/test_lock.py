"""The state directory: one holder, named to whoever comes second, gone with its process."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scuba.errors import ConfigError, StateInUse
from scuba.journal import hold_state_dir

HOLD = """
import sys, time
from pathlib import Path
from scuba.journal import hold_state_dir
with hold_state_dir(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def other(tmp_path: Path) -> "subprocess.Popen[str]":
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "state")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def finish(holder: "subprocess.Popen[str]") -> None:
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=10)


def test_the_directory_is_private_and_names_its_holder(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    with hold_state_dir(state) as held:
        holder = json.loads((state / "lock").read_text())

        assert held == state
        assert holder["pid"] == os.getpid()
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600


def test_the_second_process_is_told_who_holds_it(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    try:
        with (
            pytest.raises(StateInUse, match=f"in use by process {other.pid}, started 20") as caught,
            hold_state_dir(tmp_path / "state"),
        ):
            pass
    finally:
        finish(other)

    assert caught.value.exit_code == 73
    assert "--state-dir" in caught.value.hint


def test_the_lock_of_a_killed_process_is_free(
    tmp_path: Path, other: "subprocess.Popen[str]"
) -> None:
    finish(other)

    with hold_state_dir(tmp_path / "state"):
        assert json.loads((tmp_path / "state" / "lock").read_text())["pid"] == os.getpid()


def test_it_can_be_held_again_after_leaving(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_state_dir(tmp_path):
            pass


def test_a_child_does_not_inherit_the_hold(tmp_path: Path) -> None:
    with hold_state_dir(tmp_path):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with hold_state_dir(tmp_path):
            pass
    finally:
        child.kill()
        child.wait(10)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x", "startedAt": 1}', b"\xff"])
def test_a_holder_that_cannot_be_read_is_still_a_holder(tmp_path: Path, content: bytes) -> None:
    with hold_state_dir(tmp_path):
        (tmp_path / "lock").write_bytes(content)
        with pytest.raises(StateInUse, match="another process"), hold_state_dir(tmp_path):
            pass


def test_a_file_in_its_place_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with (
        pytest.raises(ConfigError, match=r"cannot use the state directory .*state: File exists"),
        hold_state_dir(tmp_path / "state"),
    ):
        pass


def test_a_directory_in_place_of_the_lock_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with (
        pytest.raises(ConfigError, match=r"cannot use the state directory .*: Is a directory"),
        hold_state_dir(tmp_path),
    ):
        pass


@pytest.mark.parametrize("path", ["/proc/scuba", "/dev/null/state", "a\0b"])
def test_a_place_where_nothing_can_be_kept_is_a_clear_error(path: str) -> None:
    with (
        pytest.raises(ConfigError, match="cannot use the state directory") as caught,
        hold_state_dir(Path(path)),
    ):
        pass

    assert "--state-dir" in caught.value.hint


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EROFS])
def test_a_disk_without_locks_is_a_clear_error_and_no_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Field case 16.3: some network file systems have none; nobody is blamed for it."""

    def refuse(_file: int, _how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("scuba.lock.fcntl.flock", refuse)
    with (
        pytest.raises(ConfigError, match=os.strerror(number)) as caught,
        hold_state_dir(tmp_path / "state"),
    ):
        pass

    assert caught.value.exit_code == 78
