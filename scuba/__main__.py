"""`scuba` and `python -m scuba`: runs the command line and ends with its exit code."""

import sys

from scuba.cli.exits import exit_code
from scuba.cli.root import root


def main() -> None:
    """Run the command line of this process; exits with its code."""
    sys.exit(exit_code(root, sys.argv[1:]))


if __name__ == "__main__":
    main()
