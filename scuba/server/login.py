"""Who a bearer is; every kind of wrong token gets the same answer (2.2)."""

from collections.abc import MutableMapping
from math import ceil
from typing import Any

from scuba.errors import Problem
from scuba.server.rates import Buckets
from scuba.server.store import Caller, Store

Scope = MutableMapping[str, Any]


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
    """Asks the store, and slows down an address that keeps failing (12)."""

    def __init__(self, store: Store, failures: Buckets) -> None:
        self._store, self._failures = store, failures

    async def caller(self, token: str | None, origin: str) -> Caller:
        """Return whose token it is. Raises Problem 401, 403 `principal_disabled` or 429."""
        caller = await self._store.identify(token) if token else None
        if caller is not None:
            return caller
        wait_s = self._failures.take(origin)
        if wait_s:
            raise too_many(wait_s, "too many failed logins from this address")
        raise Problem(401, "unauthenticated", "a valid bearer token is needed")


def too_many(wait_s: float, detail: str) -> Problem:
    """Return the refusal of a caller that is too fast."""
    return Problem(429, "rate_limited", detail, retry_after=ceil(wait_s))
