"""One process for one state directory: whoever comes second is told who holds it."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scuba.errors import ConfigError, unusable
from scuba.lock import hold

LOCK_NAME = "lock"
_ANOTHER = "name another directory with --state-dir or stateDir"


@contextmanager
def hold_state_dir(path: Path) -> Generator[Path]:
    """Hold the directory, made with mode 0700 if it is not there, until left; yields its path.

    Raises StateInUse naming the holder, or `unusable` when the directory cannot be used.
    """
    with ExitStack() as held:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            what = f"the state directory {path}"
            held.enter_context(hold(path / LOCK_NAME, what, f"stop that process, or {_ANOTHER}"))
        except OSError as error:
            why = f"cannot use the state directory {path}: {error.strerror}"
            raise unusable(error, why, _ANOTHER) from error
        except ValueError as error:
            raise ConfigError(
                f"cannot use the state directory {path}: {error}", _ANOTHER
            ) from error
        yield path
