"""The errors that end the program, each with its exit code and a next step for a person."""

import errno
from http import HTTPStatus
from typing import ClassVar

from scuba.descriptors import too_many, used_up

PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""What the system may lack now and have later: no mistake of whoever set this up."""


class ScubaError(Exception):
    """Ends the program. `exit_code` is stable; `hint` says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class UsageError(ScubaError):
    """The command line is wrong. A supervisor must not restart."""

    exit_code = 64


class StateInUse(ScubaError):
    """Another process holds the state directory. A supervisor must not restart."""

    exit_code = 73


class IdentityRefused(ScubaError):
    """The token is refused, or belongs to another principal. A supervisor must not restart."""

    exit_code = 77


class ConfigError(ScubaError):
    """The configuration is wrong; `what` lists every mistake. A supervisor must not restart."""

    exit_code = 78


def unusable(error: OSError, what: str, hint: str) -> ScubaError:
    """Return the error for a file that cannot be used: for good, unless what is lacking may come.

    A full disk at the start would keep a supervised bot down if it counted as a wrong setting.
    """
    if used_up(error):
        return ScubaError(what, too_many())
    return (ScubaError if error.errno in PASSING else ConfigError)(what, hint)


class AnotherLog(ScubaError):
    """The server's log is not the one we were in (1.6): restored, or replaced. Begin anew."""


class Problem(Exception):
    """A refusal as the wire says it (chapter 13): `code` for programs, `detail` for people."""

    def __init__(self, status: int, code: str, detail: str, **fields: object) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status, self.code, self.detail, self.fields = status, code, detail, fields

    @property
    def title(self) -> str:
        """Return the status's own phrase."""
        return HTTPStatus(self.status).phrase
