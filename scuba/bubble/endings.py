"""Why a connection ended, and what follows from it: wait so long, or give up (8.9). No I/O."""

from http import HTTPStatus

import msgspec

from scuba.errors import ConfigError, IdentityRefused, ScubaError
from scuba.wire import PROTOCOL, Close

TOO_MANY_S = 30.0
REFUSALS = 2
"""The first may be an accident: whoever is slow to say who it is gets the same answer (8.2)."""
PROTOCOL_ERRORS = 3
"""So many in a row are no accident."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a connection came to its end, or never came to be."""

    detail: str
    code: int | None = None
    """The close code; None when there was no WebSocket, or it broke without one."""
    status: int | None = None
    """Of an upgrade that was refused."""
    wait_s: float | None = None
    """Asked for by the server."""

    @property
    def unauthenticated(self) -> bool:
        """Return whether it was the token that was refused."""
        return self.code == Close.UNAUTHENTICATED or self.status == HTTPStatus.UNAUTHORIZED


class Lost(Exception):
    """The connection is over; `ending` tells how."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.detail)
        self.ending = ending


def permanent(ending: Ending, in_a_row: int) -> ScubaError | None:
    """Return the error that ends the program, or None when another try makes sense.

    `in_a_row` counts the endings with this code or status, this one and those just before it.
    """
    match ending:
        case Ending(unauthenticated=True) if in_a_row >= REFUSALS:
            return IdentityRefused(
                f"the Bubble server refuses the token ({ending.detail})",
                "have an owner of the bot mint a new one and put it into the configuration",
            )
        case Ending(code=Close.REFUSED) | Ending(status=HTTPStatus.FORBIDDEN):
            return IdentityRefused(
                f"the Bubble server refuses this principal ({ending.detail})",
                "ask an owner of the bot or of the server whether it is disabled",
            )
        case Ending(code=Close.VERSION) | Ending(status=HTTPStatus.UPGRADE_REQUIRED):
            return ConfigError(
                f"the Bubble server does not serve protocol {PROTOCOL} ({ending.detail})",
                "update the older of scuba and the server",
            )
        case Ending(code=Close.PROTOCOL) if in_a_row >= PROTOCOL_ERRORS:
            return ScubaError(
                f"the Bubble server closed {in_a_row} connections in a row because of "
                f"what it was sent ({ending.detail})",
                "is something else than a Bubble server at bubble.url? If not, report a bug",
            )
        case _:
            return None


def least_wait_s(ending: Ending) -> float | None:
    """Return the shortest wait before the next try that the ending asks for."""
    if ending.wait_s is not None:
        return ending.wait_s
    if ending.code == Close.TOO_MANY or ending.status == HTTPStatus.TOO_MANY_REQUESTS:
        return TOO_MANY_S
    return None
