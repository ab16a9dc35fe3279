"""List cursors: opaque, bound to their query, good for one hour (13)."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable

from scuba.errors import Problem

LIFE_S = 3_600.0
_MAC_BYTES = 16


class Cursors:
    """Seals what the store says about where a list goes on.

    Key and clock are those of all servers of one store, so that each opens what another sealed.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = key, clock

    def seal(self, place: str, bound: str) -> str:
        """Return a cursor that only `open` with the same `bound` understands."""
        body = f"{self._clock() + LIFE_S:.3f} {place}".encode()
        sealed = self._mac(body, bound) + body
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, cursor: str, bound: str) -> str:
        """Return the place. Raises Problem `invalid_query` for one of another query, or too old."""
        try:
            sealed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except (binascii.Error, ValueError):
            sealed = b""
        mac, body = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, bound)):
            raise Problem(400, "invalid_query", "cursor: not one of this query")
        good_until, _, place = body.decode().partition(" ")
        if float(good_until) < self._clock():
            raise Problem(400, "invalid_query", "cursor: older than one hour")
        return place

    def _mac(self, body: bytes, bound: str) -> bytes:
        text = body + b"\0" + bound.encode()
        return hmac.digest(self._key, text, hashlib.sha256)[:_MAC_BYTES]
