"""What somebody at the door shows: read from the headers of a request or of an upgrade (2.2)."""

import ipaddress
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]

ACTS_AS = b"x-bubble-principal-id"


class Visit(msgspec.Struct, frozen=True):
    """One request or socket that asks to be let in."""

    token: str | None
    acts_as: str | None
    """As whom, for the master key; every other driver ignores it."""
    address: str
    request_id: str
    """Of the request, or of the connection; the audit keeps it (14.4)."""


def visit(scope: Scope, *, request_id: str, trusted_proxy: bool) -> Visit:
    """Return what the headers show."""
    return Visit(
        bearer(scope),
        header(scope, ACTS_AS),
        address(scope, trusted_proxy=trusted_proxy),
        request_id,
    )


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
        return _one_guest(forwarded.rpartition(",")[2].strip())
    client = scope.get("client")
    return _one_guest(str(client[0])) if client else ""


@lru_cache(maxsize=4_096)
def _one_guest(address: str) -> str:
    """Return what of an address tells one guest from another: of IPv6 the network, its first half.

    Whoever has one such address has all of its network.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
