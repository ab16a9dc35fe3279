"""The token in use: taken anew from its source when the server refuses it (2.5, 8.9)."""

import logging
from collections.abc import Awaitable, Callable

import msgspec
import trio

from actors.ports import Refused
from scuba.errors import ConfigError, IdentityRefused
from scuba.secret import Secret

logger = logging.getLogger(__name__)


class Source(msgspec.Struct, frozen=True):
    """Where a token comes from, and whose it must be."""

    read: Callable[[], str]
    """Blocks; raises ConfigError. Whatever it returns is registered as a secret by then."""
    principal_id: str


class Credential:
    """One token at a time. `renew` may put another one of the same principal in its place."""

    def __init__(self, token: Secret, source: Source | None) -> None:
        self.token = token
        self._source = source
        self._reading = trio.Lock()

    async def renew(self, old: Secret, owner: Callable[[Secret], Awaitable[str]]) -> bool:
        """Return whether there is another token than `old` now.

        `owner` asks the server whose a token is. Raises Unavailable when it cannot be asked, and
        IdentityRefused when the new token is another principal's: it is never used.
        """
        async with self._reading:
            if self.token != old:
                return True
            new = await self._read()
            if new is None or new == old or not await self._is_ours(new, owner):
                return False
            self.token = new
            logger.info("the token was read anew")
            return True

    async def _read(self) -> Secret | None:
        if self._source is None:
            return None
        try:
            return Secret(await trio.to_thread.run_sync(self._source.read))
        except ConfigError as error:
            logger.warning("the token cannot be read anew: %s", error)
            return None

    async def _is_ours(self, new: Secret, owner: Callable[[Secret], Awaitable[str]]) -> bool:
        assert self._source is not None
        try:
            found = await owner(new)
        except Refused as refused:
            logger.warning("the server refuses the token that was read anew: %s", refused.detail)
            return False
        if found != self._source.principal_id:
            raise IdentityRefused(
                f"the new token belongs to {found}, not to {self._source.principal_id}",
                "put a token of the same principal where bubble.token points",
            )
        return True
