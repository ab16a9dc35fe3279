"""A small file system in memory, which a test may fill to the last byte."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[bool]:
    """Make a directory with so much room for itself; yields whether it could be made small.

    Only root can mount one. For others it is a directory like any, except in CI, where nothing is
    left out.
    """
    path.mkdir()
    if os.geteuid() != 0 and "CI" not in os.environ:
        yield False
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path: Path) -> None:
    """Write into a file until nothing more fits. Removing the file makes room again."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
