"""One server for one file: whoever comes second is told, and the kernel lets go of the dead."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scuba.errors import ConfigError


@contextmanager
def hold_file(path: Path) -> Generator[None]:
    """Hold `PATH.lock` until left. Raises ConfigError when another process holds it, or OSError."""
    file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(file, path)
        yield
    finally:
        os.close(file)


def _take(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(
            f"another server has the store {path} open",
            "stop it, or use another file; several servers can share a PostgreSQL store",
        ) from error
