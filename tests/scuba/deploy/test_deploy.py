"""The services: complete, with nothing left to fill in, for whatever is run."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scuba.deploy import PERMANENT, Service, Supervisor, service_files

COMMAND = ("/opt/py thon/bin/python", "-m", "scuba", "run", "--config", "/etc/it's $HOME/a%b.json")
SUPERVISORS = get_args(Supervisor)


def files_of(supervisor: Supervisor, **fields: object) -> dict[str, str]:
    service = Service(command=COMMAND, **fields)  # type: ignore[arg-type]  # fields of it
    return {file.path: file.text for file in service_files(supervisor, service)}


@pytest.mark.parametrize("supervisor", SUPERVISORS)
def test_nothing_is_left_to_fill_in(supervisor: Supervisor) -> None:
    for text in files_of(supervisor, user="scuba", log_dir=Path("/var/log/scuba")).values():
        assert "@" not in text.replace("$@", "")


@pytest.mark.parametrize("supervisor", ["s6", "runit"])
@pytest.mark.parametrize("user", [None, "scuba"])
def test_every_script_is_a_shell_script(supervisor: Supervisor, user: str | None) -> None:
    found = service_files(supervisor, Service(command=COMMAND, user=user))
    scripts = [file for file in found if file.mode == 0o755]
    assert len(scripts) >= 3
    for script in scripts:
        assert script.text.startswith("#!/bin/sh\n"), script.path
        subprocess.run(["sh", "-n"], input=script.text, text=True, check=True, timeout=10)


@pytest.mark.parametrize("supervisor", ["s6", "runit"])
def test_the_command_reaches_the_shell_word_for_word(supervisor: Supervisor) -> None:
    lines = files_of(supervisor)["run"].splitlines()
    (line,) = [line for line in lines if "-m scuba" in line]
    assert tuple(shlex.split(line)[1 : 1 + len(COMMAND)]) == COMMAND


def test_the_unit_file_says_what_systemd_needs() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names keep their case
    unit.read_string(files_of("systemd", user="scuba")["scuba.service"])

    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["User"] == "scuba"
    assert service["RestartPreventExitStatus"].split() == [str(code) for code in PERMANENT]
    assert service["ExecStart"] == (
        '"/opt/py thon/bin/python" -m scuba run --config "/etc/it\'s $$HOME/a%%b.json"'
    )


@pytest.mark.parametrize("user", [None, "root"])
def test_systemd_itself_finds_nothing_wrong_with_the_unit_file(
    tmp_path: Path, user: str | None
) -> None:
    """As a real systemd reads it, without one that runs. Older ones do not know two of the keys."""
    command = (sys.executable, *COMMAND[1:])
    (unit,) = service_files("systemd", Service(command=command, user=user))
    path = tmp_path / "scuba.service"

    assert _verified(path, unit.text) == []
    assert _verified(path, unit.text.replace("Restart=on-failure", "Restart=sometimes"))
    assert _verified(path, unit.text.replace(sys.executable, "/no/such/python"))


def _verified(path: Path, text: str) -> list[str]:
    """Return what systemd finds wrong with a unit file, of which it may not know all keys yet."""
    assert shutil.which("systemd-analyze"), "install systemd"
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    newer = ("'RestartSteps'", "'RestartMaxDelaySec'")
    lines = [line for line in done.stderr.splitlines() if path.name in line]
    wrong = [
        line for line in lines if not ("Unknown key" in line and any(k in line for k in newer))
    ]
    return wrong or ([done.stderr] if done.returncode else [])


@settings(max_examples=40)
@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_any_word_is_one_word_to_a_unit_file(word: str) -> None:
    (unit,) = service_files("systemd", Service(command=("/bin/true", word)))
    line = next(line for line in unit.text.splitlines() if line.startswith("ExecStart="))
    told = line.removeprefix("ExecStart=/bin/true ").replace("%%", "%").replace("$$", "$")

    assert shlex.split(told, posix=True) == [word] or told == word


def test_permanent_are_the_exit_codes_that_the_architecture_names() -> None:
    """Field case 16.1."""
    assert PERMANENT == [64, 73, 77, 78]


@pytest.mark.parametrize("supervisor", ["s6", "runit"])
@pytest.mark.parametrize(
    ("before", "delay"),
    [(None, 1), ("1 {now}", 2), ("4 {now}", 16), ("5 {now}", 30), ("90 {now}", 30), ("9 100", 1)],
)
def test_each_crash_waits_longer_but_not_for_ever(
    tmp_path: Path, supervisor: Supervisor, before: str | None, delay: int
) -> None:
    """Field case 16.1: a passing failure is tried again, not in a tight loop."""
    (tmp_path / "sleep").write_text("#!/bin/sh\necho slept $1\n")
    (tmp_path / "date").write_text("#!/bin/sh\necho 1000000\n")
    for name in ("sleep", "date"):
        (tmp_path / name).chmod(0o755)
    if before is not None:
        (tmp_path / "crashes").write_text(before.format(now=1_000_000 - 60) + "\n")

    done = subprocess.run(
        ["sh", "-c", files_of(supervisor)["finish"], "finish", "1", "0"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )

    assert f"slept {delay}\n" in done.stdout
    assert done.stderr == ""
