"""Open files that run out: how that is noticed, and what a person is told about it (10.5)."""

import errno
import os
import resource

USED_UP = frozenset({errno.EMFILE, errno.ENFILE})
BASE, CALLS, PER_SESSION = 24, 16, 4
"""What a bot has open by itself, for calls to its server, and for each CLI: pipes and a handle."""


def used_up(error: BaseException | None) -> bool:
    """Return whether an error says that no further file can be opened."""
    return isinstance(error, OSError) and error.errno in USED_UP


def too_few_left(wanted: int) -> bool:
    """Return whether so many more files cannot be open at once, where an error does not say why."""
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return used_up(error)
    finally:
        for file in opened:
            os.close(file)
    return False


def limit() -> int | None:
    """Return how many files this process may have open; None without a limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def too_many() -> str:
    """Return the cause and what to do about it."""
    return (
        f"too many open files, the limit is {limit()}: raise it with `ulimit -n` before the start, "
        "or LimitNOFILE= in a systemd unit"
    )


def needed(sessions: int) -> int:
    """Return how many files a bot may have open at once with so many CLIs."""
    return BASE + CALLS + PER_SESSION * sessions


def open_files() -> int:
    """Return how many files this process has open. Raises OSError where nobody can tell."""
    return len(os.listdir("/proc/self/fd")) - 1  # without the one that lists them
