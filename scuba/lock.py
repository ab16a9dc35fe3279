"""A file that one process holds at a time: whoever comes second is told who holds it."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from scuba.errors import StateInUse

HOLDER_BYTES = 4096


@contextmanager
def hold(path: Path, what: str, hint: str) -> Generator[None]:
    """Hold a lock file, made with mode 0600 if it is not there, until left.

    The kernel lets go of it when the process dies, however it dies. Raises StateInUse saying that
    `what` is in use, and by whom; OSError or ValueError when the file cannot be used.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateInUse(f"{what} is in use by {_holder(file)}", hint) from error
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "startedAt": now}).encode(), 0)
        yield
    finally:
        os.close(file)


def _holder(file: int) -> str:
    try:
        holder = json.loads(os.pread(file, HOLDER_BYTES, 0))
        return f"process {int(holder['pid'])}, started {str(holder['startedAt'])[:40]}"
    except (ValueError, KeyError, TypeError):
        return "another process"  # it has the lock, and has not said yet who it is
