"""One server for one file: whoever comes second is told who has it."""

from contextlib import AbstractContextManager
from pathlib import Path

from scuba.lock import hold


def hold_file(path: Path) -> AbstractContextManager[None]:
    """Hold `PATH.lock` until left. Raises StateInUse naming the holder, or OSError."""
    hint = "stop it, or use another file; several servers can share a PostgreSQL store"
    return hold(Path(f"{path}.lock"), f"the store {path}", hint)
