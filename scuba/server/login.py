"""Who a bearer is; every kind of wrong token gets the same answer (2.2)."""

from collections.abc import Callable, MutableMapping
from math import ceil
from typing import Any

import trio

from scuba.errors import Problem
from scuba.server.rates import Buckets
from scuba.server.store import Caller, Change, PrincipalDisabled, Store, TokenEnded
from scuba.server.store.authority import unauthenticated

Scope = MutableMapping[str, Any]

KNOWN_S = 1.0
MOST_KNOWN = 1_000


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first header of that lower-case name, or None."""
    found = (value for key, value in scope["headers"] if key == name)
    value = next(found, None)
    return None if value is None else value.decode("latin-1")


def bearer(scope: Scope) -> str | None:
    """Return the token of the `Authorization` header, or None."""
    scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def address(scope: Scope, *, trusted_proxy: bool) -> str:
    """Return where a request comes from: the peer, or what the trusted proxy says of it."""
    forwarded = header(scope, b"x-forwarded-for") if trusted_proxy else None
    if forwarded:
        return forwarded.rpartition(",")[2].strip()
    client = scope.get("client")
    return str(client[0]) if client else ""


class Logins:
    """Asks the store, remembers the answer for a second, and slows down who keeps failing (12).

    Whoever makes one has the store tell it of changes by `heard`: an ended token is forgotten
    before its end is answered. Only one that expires by itself may read for that second longer.
    """

    def __init__(
        self,
        store: Store,
        failures: Buckets,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._store, self._failures, self._clock = store, failures, clock
        self._known: dict[str, tuple[Caller, float]] = {}
        self._endings = 0

    def heard(self, change: Change) -> None:
        """Take one change of the store."""
        if isinstance(change, TokenEnded | PrincipalDisabled):
            self._known.clear()
            self._endings += 1

    async def caller(self, token: str | None, origin: str) -> Caller:
        """Return whose token it is. Raises Problem 401, 403 `principal_disabled` or 429."""
        caller = await self._identify(token) if token else None
        if caller is not None:
            return caller
        wait_s = self._failures.take(origin)
        if wait_s:
            raise too_many(wait_s, "too many failed logins from this address")
        raise unauthenticated()

    async def _identify(self, token: str) -> Caller | None:
        known = self._known.get(token)
        if known is not None and self._clock() < known[1]:
            return known[0]
        endings = self._endings
        caller = await self._store.identify(token)
        if caller is not None and endings == self._endings:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[token] = (caller, self._clock() + KNOWN_S)
        return caller


def too_many(wait_s: float, detail: str) -> Problem:
    """Return the refusal of a caller that is too fast."""
    return Problem(429, "rate_limited", detail, retry_after=ceil(wait_s))
