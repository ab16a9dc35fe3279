"""`scuba` and `python -m scuba`: runs the command line and ends with its exit code."""

import os
import signal
import sys
from types import FrameType

DAEMONS = ("run", "serve")
"""The commands that a supervisor stops; and scuba without a command."""


def main() -> None:
    """Run the command line of this process; exits with its code."""
    args = sys.argv[1:]
    if not args or args[0].startswith("-"):
        leave_at(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        signal.signal(signal.SIGUSR1, _not_yet)
    elif args[0] in DAEMONS:
        leave_at(signal.SIGTERM, signal.SIGINT)
        signal.signal(signal.SIGHUP, _not_yet)
        signal.signal(signal.SIGUSR1, _not_yet)
    # Only now: to import all of it takes half a second, in which a stop should be a stop.
    from scuba.cli.exits import exit_code
    from scuba.cli.root import root

    sys.exit(exit_code(root, args))


def leave_at(*numbers: signal.Signals) -> None:
    """Have a stop that comes before `scuba.app` listens be a clean one too, with exit code 0.

    Nothing that needs an end is begun before that, so leaving at once leaves nothing behind.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background
            signal.signal(number, _leave)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def _not_yet(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: there is nothing to read anew, or to count."""


if __name__ == "__main__":
    main()
