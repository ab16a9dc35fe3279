"""Readiness: told once, by each way that was asked for; nothing of it reaches a child."""

import os
import socket
import stat
from pathlib import Path

import msgspec
import pytest

from scuba.errors import ConfigError, UsageError
from scuba.readiness import NOTIFY_SOCKET, Ready, readiness

FACTS = Ready(url="http://127.0.0.1:7437", pid=7, principal_id="bot-claude")


def test_a_descriptor_gets_a_line_end_and_is_closed() -> None:
    """Field case 16.4."""
    reads, writes = os.pipe()
    os.set_inheritable(writes, True)
    told = readiness({}, fd=writes)
    assert not os.get_inheritable(writes)

    told.tell(FACTS)

    assert os.read(reads, 10) == b"\n"
    assert os.read(reads, 10) == b""
    os.close(reads)


@pytest.mark.parametrize("fd", [0, 1, 2, 987])
def test_a_descriptor_that_cannot_be_meant_is_refused_at_once(fd: int) -> None:
    with pytest.raises(UsageError, match=f"--notify-fd {fd}"):
        readiness({}, fd=fd)


def test_a_listener_that_has_gone_is_no_reason_to_stop() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    readiness({"NOTIFY_SOCKET": "/nowhere/at/all"}, fd=writes).tell(FACTS)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writes)


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_of_start_and_stop(tmp_path: Path, abstract: bool) -> None:
    name = f"scuba-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(5)
        listener.bind(f"\0{name}" if abstract else str(tmp_path / name))
        environ = {NOTIFY_SOCKET: f"@{name}" if abstract else str(tmp_path / name), "PATH": "/bin"}
        told = readiness(environ)

        told.tell(FACTS)
        told.stopping()

        assert [listener.recv(100), listener.recv(100)] == [b"READY=1", b"STOPPING=1"]
    assert environ == {"PATH": "/bin"}


def test_the_file_says_where_and_who_to_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    readiness({}, file=file).tell(FACTS)

    assert msgspec.json.decode(file.read_bytes(), type=Ready) == FACTS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        readiness({}, file=tmp_path / "none" / "ready.json").tell(FACTS)


def test_nobody_asked() -> None:
    readiness({}).tell(FACTS)
    readiness({}).stopping()
