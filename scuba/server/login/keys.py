"""The issuer's public keys, fetched when they are needed and kept while they are fresh (2.2)."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import jwt
import msgspec
import trio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from scuba.errors import Problem
from scuba.server.config import Oidc, is_safe_url
from scuba.server.login.fetch import Fetched, FetchFailed, fetch
from scuba.server.strictness import strict

logger = logging.getLogger(__name__)

FRESH_S = 600.0
"""How long keys are kept when the issuer does not say."""
SHORTEST_S, LONGEST_S = 60.0, 86_400.0
AGAIN_S = 30.0
"""Shortest time between two fetches, whatever ids of keys strangers make up."""
WITHOUT_S = 2.0
"""The same as long as there are no keys at all, and nobody can log in."""
FETCH_S = 5.0
"""Longest time for discovery and keys together."""
LEAST_RSA_BITS = 2_048
KEY_TYPES = ("RSA", "EC", "OKP")

Fetch = Callable[[str], Awaitable[Fetched]]


class KeySet(msgspec.Struct, frozen=True):
    """Keys by id and algorithm; each is good for exactly the algorithm it stands under."""

    by_use: dict[tuple[str | None, str], jwt.PyJWK]
    count: int

    def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key. Without an id there must be only one to choose from."""
        if key_id is not None:
            return self.by_use.get((key_id, algorithm))
        fitting = [key for (_, other), key in self.by_use.items() if other == algorithm]
        return fitting[0] if self.count == 1 and fitting else None


class IssuerKeys:
    """Owns the key set; needs no task of its own: who finds it stale fetches it, the others wait.

    A fetch that fails leaves the old keys in use.
    """

    def __init__(
        self, config: Oidc, get: Fetch = fetch, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._config, self._get, self._clock = config, get, clock
        self._set: KeySet | None = None
        self._flight = trio.Lock()
        self._stale_at = self._next_at = float("-inf")

    async def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key that a token names, None when the issuer has none such.

        Raises Problem 503 when there are no keys, and none can be had.
        """
        if self._set is None or (self._clock() >= self._stale_at and not self._flight.locked()):
            await self._renew()
        key = self._keys().find(key_id, algorithm)
        if key is None:
            await self._renew()
            key = self._keys().find(key_id, algorithm)
        return key

    def _keys(self) -> KeySet:
        if self._set is None:
            wait_s = max(1, round(self._next_at - self._clock()))
            detail = "the issuer's keys cannot be had now"
            raise Problem(503, "unavailable", detail, retry_after=wait_s)
        return self._set

    async def _renew(self) -> None:
        """Fetch the keys, unless that was tried a moment ago, by whomever."""
        async with self._flight:
            if self._clock() < self._next_at:
                return
            try:
                self._set, fresh_s = await self._fetch()
                self._stale_at = self._clock() + fresh_s
            except FetchFailed as error:
                logger.warning("cannot get the keys of %s: %s", self._config.issuer, error)
            self._next_at = self._clock() + (WITHOUT_S if self._set is None else AGAIN_S)

    async def _fetch(self) -> tuple[KeySet, float]:
        with trio.move_on_after(FETCH_S):
            url = self._config.jwks_url or await self._discover()
            answer = await self._get(url)
            fresh_s = FRESH_S if answer.max_age_s is None else answer.max_age_s
            keys = key_set(_document(answer, url), self._config.algorithms)
            return keys, min(max(fresh_s, SHORTEST_S), LONGEST_S)
        raise FetchFailed(f"no answer within {FETCH_S:g} s")

    async def _discover(self) -> str:
        """Return where the issuer's own description says that its keys are."""
        url = self._config.issuer.rstrip("/") + "/.well-known/openid-configuration"
        found = _document(await self._get(url), url)
        if found.get("issuer") != self._config.issuer:
            raise FetchFailed(f"{url} describes another issuer: {str(found.get('issuer'))[:200]!r}")
        keys_at = found.get("jwks_uri")
        if not isinstance(keys_at, str) or not is_safe_url(keys_at):
            raise FetchFailed(f"{url} has no jwks_uri with https")
        if urlsplit(keys_at).scheme != urlsplit(url).scheme:
            raise FetchFailed(f"{url} has a jwks_uri of another scheme")
        return keys_at


def key_set(document: dict[str, Any], algorithms: tuple[str, ...]) -> KeySet:
    """Return the keys of a JWKS that may sign with one of these. Raises FetchFailed for none."""
    found = document.get("keys")
    by_use: dict[tuple[str | None, str], jwt.PyJWK] = {}
    count = 0
    for entry in cast("list[object]", found) if isinstance(found, list) else []:
        keys = list(_usable(entry, algorithms))
        count += bool(keys)
        for key in keys:
            by_use.setdefault((key.key_id or None, key.algorithm_name), key)
    if not by_use:
        raise FetchFailed(f"no key that signs with {', '.join(algorithms)}")
    return KeySet(by_use, count)


def _usable(entry: object, algorithms: tuple[str, ...]) -> Iterator[jwt.PyJWK]:
    """Yield one JWK once for each algorithm it is for. Private and short ones are for none."""
    if not isinstance(entry, dict):
        return
    jwk = cast("dict[str, Any]", entry)
    if jwk.get("kty") not in KEY_TYPES or "d" in jwk or jwk.get("use", "sig") != "sig":
        return
    for algorithm in algorithms:
        if jwk.get("alg", algorithm) != algorithm or not isinstance(jwk.get("kid", ""), str):
            continue
        try:
            key = jwt.PyJWK(jwk, algorithm)
        except (jwt.PyJWTError, TypeError, ValueError):
            continue
        if not isinstance(key.key, RSAPublicKey) or key.key.key_size >= LEAST_RSA_BITS:
            yield key


def _document(answer: Fetched, url: str) -> dict[str, Any]:
    try:
        return strict(answer.body)
    except Problem as problem:
        raise FetchFailed(f"{url}: {problem.detail}") from None
