"""One process for one state directory: whoever comes second is told who holds it."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from scuba.errors import ConfigError, StateInUse

LOCK_NAME = "lock"
HOLDER_BYTES = 4096
_ANOTHER = "name another directory with --state-dir or stateDir"


@contextmanager
def hold_state_dir(path: Path) -> Generator[Path]:
    """Hold the directory, made with mode 0700 if it is not there, until left; yields its path.

    The kernel lets go of it when the process dies, however it dies. Raises StateInUse naming
    the holder, or ConfigError when the directory cannot be used.
    """
    file = _open(path)
    try:
        _take(file, path)
        yield path
    finally:
        os.close(file)


def _open(path: Path) -> int:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot use the state directory {path}: {why}", _ANOTHER) from error


def _take(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StateInUse(
            f"the state directory {path} is in use by {_holder(file)}",
            "stop that process, or " + _ANOTHER,
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot lock the state directory {path}: {error.strerror}", _ANOTHER
        ) from error
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"pid": os.getpid(), "startedAt": now}).encode(), 0)


def _holder(file: int) -> str:
    try:
        holder = json.loads(os.pread(file, HOLDER_BYTES, 0))
        return f"process {int(holder['pid'])}, started {str(holder['startedAt'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "another process"  # it has the lock, and has not said yet who it is
