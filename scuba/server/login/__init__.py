"""Who a bearer is. START HERE: `Logins.caller` picks the driver that a token's form names (2.2)."""

from scuba.server.login.door import Scope, Visit, address, bearer, header, visit
from scuba.server.login.logins import KNOWN_S, Logins, too_many

__all__ = [
    "KNOWN_S",
    "Logins",
    "Scope",
    "Visit",
    "address",
    "bearer",
    "header",
    "too_many",
    "visit",
]
