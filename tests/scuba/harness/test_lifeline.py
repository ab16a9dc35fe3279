"""The life-line: sessions end with the program that started them, whatever ends it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scuba.harness.lifeline import LifeLine, open_life_line
from scuba.harness.proc import TAG, Seen, look, processes, same, send, tagged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).parents[3]

DAEMON = """
import os, subprocess, sys, time
from pathlib import Path
from scuba.harness.lifeline import open_life_line

folder, script = Path(sys.argv[1]), sys.argv[2]
with open_life_line(folder) as line:
    for tag in sys.argv[3:]:
        line.hold(tag, "thr_1")
        subprocess.Popen(
            ["/bin/bash", "-c", script],
            env={"PATH": os.defpath, "SCUBA_SESSION": tag},
            start_new_session=True,
        )
    print("up", flush=True)
    time.sleep(60)
"""
"""A stand-in for the daemon: its CLIs do what `script` says."""

POLITE = "setsid sleep 60 & trap 'kill %1; exit 143' TERM; wait"
DEAF = "trap '' TERM; setsid sleep 60 & while true; do sleep 60; done"


def start(folder: Path, script: str, *tags: str) -> subprocess.Popen[bytes]:
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(folder), script, *tags],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == b"up\n"
    until(lambda: len(tagged(tags, processes())) >= 2 * len(tags), 10)
    return daemon


def until(true: object, within_s: float) -> None:
    assert callable(true)
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.02)


def kill(daemon: subprocess.Popen[bytes]) -> None:
    daemon.kill()
    daemon.wait()
    assert daemon.stdout is not None
    daemon.stdout.close()


def guards_of(pid: int) -> list[Seen]:
    found = [seen for seen in processes().values() if seen.parent == pid]
    return [seen for seen in found if b"scuba.harness.guard" in argv(seen.pid)]


def argv(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def bystander() -> Iterator[Seen]:
    """A session of somebody else, which no guard may touch."""
    process = subprocess.Popen(
        ["sleep", "60"], env={"PATH": os.defpath, TAG: "other"}, start_new_session=True
    )
    seen = look(process.pid)
    assert seen is not None
    yield seen
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.mark.parametrize(("script", "within_s"), [(POLITE, 3.0), (DEAF, 7.0)])
def test_a_killed_daemons_sessions_end_within_seconds(
    tmp_path: Path, bystander: Seen, script: str, within_s: float
) -> None:
    """Field case 10.1: by SIGTERM, so that a CLI ends its tools; what is deaf to it is killed."""
    daemon = start(tmp_path, script, "tag-1", "tag-2")
    (guard,) = guards_of(daemon.pid)

    kill(daemon)

    until(lambda: not tagged({"tag-1", "tag-2"}, processes()), within_s)
    until(lambda: not same(look(guard.pid), guard), 2)
    assert same(look(bystander.pid), bystander)


def test_a_guard_that_was_killed_is_replaced_and_knows_every_session(tmp_path: Path) -> None:
    """Field case 10.1: nobody is without a guard for longer than a look takes."""
    with open_life_line(tmp_path) as line:
        line.hold("tag-1", "thr_1")
        (first,) = guards_of(os.getpid())
        send(first, signal.SIGKILL)
        until(lambda: (seen := look(first.pid)) is None or seen.state == "Z", 2)

        line.check()

        (second,) = guards_of(os.getpid())
        assert second.pid != first.pid
        session = subprocess.Popen(
            ["sleep", "60"], env={"PATH": os.defpath, TAG: "tag-1"}, start_new_session=True
        )
    # The line was closed with a session still held, as when this process dies.
    assert session.wait(5) == -signal.SIGTERM


def test_killed_with_its_guard_the_next_start_ends_what_is_left(tmp_path: Path) -> None:
    """Field case 10.1: the record on disk is what remains."""
    daemon = start(tmp_path, POLITE, "tag-1")
    (guard,) = guards_of(daemon.pid)
    send(guard, signal.SIGKILL)
    kill(daemon)
    assert tagged({"tag-1"}, processes())

    with open_life_line(tmp_path):
        assert not tagged({"tag-1"}, processes())
        assert not list(tmp_path.iterdir())


def test_daemons_killed_one_after_the_other_leave_nothing(tmp_path: Path) -> None:
    """Field case 10.1."""
    tags = [f"tag-{cycle}" for cycle in range(8)]
    for tag in tags:
        kill(start(tmp_path, POLITE, tag))

    with open_life_line(tmp_path):
        assert not tagged(tags, processes())


def test_the_guard_inherits_neither_secrets_nor_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUBBLE_TOKEN", "bubble_agent_secret")
    with open_life_line(tmp_path) as line:
        line.hold("tag-1", "thr_1")
        (guard,) = guards_of(os.getpid())
        until(lambda: b"scuba.harness.guard" in argv(guard.pid), 5)
        environment = Path(f"/proc/{guard.pid}/environ").read_bytes()
        fds = Path(f"/proc/{guard.pid}/fd")  # one more while it reads a module
        until(lambda: {path.name for path in fds.iterdir()} == {"0", "1", "2"}, 5)
        line.release("tag-1")

    assert b"bubble_agent_secret" not in environment


def test_a_session_that_ended_is_forgotten(tmp_path: Path) -> None:
    line = LifeLine(tmp_path)
    line.hold("tag-1", "thr_1")
    assert [path.name for path in tmp_path.iterdir()] == ["tag-1"]

    line.release("tag-1")
    line.release("tag-1")

    assert not list(tmp_path.iterdir())
    line.close()
