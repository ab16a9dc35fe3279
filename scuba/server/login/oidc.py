"""A JWT is believed when the issuer signed it, for us, now, in a way that we have chosen (2.2)."""

import base64
import time
from collections.abc import Callable
from typing import Any

import jwt

from scuba.errors import Problem
from scuba.server.config import Oidc
from scuba.server.login.keys import IssuerKeys
from scuba.server.store.identities import SUBJECT_CHARACTERS, Vouched
from scuba.server.store.ids import moment
from scuba.server.strictness import strict
from scuba.wire.base import EMAIL_CHARACTERS, NAME_CHARACTERS

TOKEN_CHARACTERS = 8_192
"""A longer one is not looked at."""
LEEWAY_S = 30
"""How far the issuer's clock may be ahead of ours; a token that has ended by ours has ended."""
LAST_MOMENT_S = 253_402_300_799
"""The end of the year 9999, which is as far as a moment can be written."""
REQUIRED = ("iss", "aud", "exp", "sub")


class Verifier:
    """Knows the issuer's rules and, through `IssuerKeys`, its keys."""

    def __init__(
        self,
        config: Oidc,
        keys: IssuerKeys | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._now_s = config, now_s
        self._keys = keys or IssuerKeys(config)

    async def vouched(self, token: str) -> Vouched | None:
        """Return what the issuer says of the bearer, None for whatever is wrong with the token.

        Raises Problem 503 when the issuer's keys cannot be had.
        """
        if len(token) > TOKEN_CHARACTERS:
            return None
        header, claims = (_part(text) for text in token.split(".")[:2])
        if header is None or claims is None or "crit" in header:
            return None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._config.algorithms or claims.get("iss") != self._config.issuer:
            return None
        if key_id is not None and not isinstance(key_id, str):
            return None
        key = await self._keys.find(key_id, algorithm)
        if key is None or not self._is_signed(token, key, algorithm):
            return None
        return self._read(claims)

    def _is_signed(self, token: str, key: jwt.PyJWK, algorithm: str) -> bool:
        try:
            jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._config.audience,
                issuer=self._config.issuer,
                leeway=LEEWAY_S,
                options={"require": list(REQUIRED), "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError:
            return False
        return True

    def _read(self, claims: dict[str, Any]) -> Vouched | None:
        """Return what is of use in claims that are signed."""
        subject, ends = claims["sub"], claims["exp"]
        if isinstance(ends, bool) or not isinstance(ends, int | float) or ends <= self._now_s():
            return None
        if not 0 < len(subject) <= SUBJECT_CHARACTERS:
            return None
        email = _text(claims, "email")
        if email is not None and len(email) > EMAIL_CHARACTERS:
            email = None
        name = _text(claims, "name")
        names = (_text(claims, "preferred_username"), email, _text(claims, "nickname"))
        return Vouched(
            issuer=self._config.issuer,
            subject=subject,
            expires_at=moment(int(min(ends, LAST_MOMENT_S) * 1_000)),
            names=tuple(name.partition("@")[0] for name in names if name),
            display_name=None if name is None else name[:NAME_CHARACTERS],
            email=email if claims.get("email_verified") is True else None,
        )


def _part(text: str) -> dict[str, Any] | None:
    """Return the JSON object in one part of a JWT; none that is read differently elsewhere."""
    try:
        return strict(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, Problem):
        return None


def _text(claims: dict[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value.strip() or None if isinstance(value, str) else None
