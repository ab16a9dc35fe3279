"""The dispatcher: one driver looks at a token, and all that are wrong are answered alike (2.2)."""

from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil, inf
from typing import assert_never

import msgspec
import trio

from scuba.errors import Problem
from scuba.server.config import ServerConfig
from scuba.server.credentials import Driver, driver_of
from scuba.server.login.door import Visit
from scuba.server.login.oidc import Verifier
from scuba.server.rates import Buckets
from scuba.server.store import Caller, Change, Missed, PrincipalDisabled, Store, TokenEnded
from scuba.server.store.refusals import unauthenticated

KNOWN_S = 1.0
MOST_KNOWN = 1_000


class Logins:
    """Asks the drivers, remembers an answer for a second, slows down who keeps failing (12).

    Whoever makes one has the store tell it of changes by `heard`: an ended token is forgotten
    before its end is answered. Only a local one that expires by itself may read for that second
    longer.
    """

    def __init__(
        self,
        store: Store,
        config: ServerConfig,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._store, self._config, self._clock = store, config, clock
        self._failures = Buckets(config.failed_logins, clock)
        self._verifier = None if config.oidc is None else Verifier(config.oidc)
        self._known: dict[str, tuple[Caller, float]] = {}
        self._endings = 0

    @property
    def drivers(self) -> list[Driver]:
        """Return the drivers that are configured, as `/v1/info` lists them (11.1)."""
        drivers: list[Driver] = ["local-token"]
        if self._config.oidc is not None:
            drivers.append("oidc")
        if self._config.master_key is not None:
            drivers.append("master-key")
        return drivers

    def heard(self, change: Change) -> None:
        """Take one change of the store."""
        if isinstance(change, TokenEnded | PrincipalDisabled | Missed):
            self._known.clear()
            self._endings += 1

    async def caller(self, visit: Visit) -> Caller:
        """Return who it is. Raises Problem 401, 403 `principal_disabled`, 429, or 503."""
        caller = await self._identify(visit, visit.token) if visit.token else None
        if caller is not None:
            return msgspec.structs.replace(caller, request_id=visit.request_id)
        wait_s = self._failures.take(visit.address)
        if wait_s:
            raise too_many(wait_s, "too many failed logins from this address")
        raise unauthenticated()

    async def _identify(self, visit: Visit, token: str) -> Caller | None:
        config = self._config
        driver = driver_of(token, oidc=config.oidc is not None, master_key=config.master_key)
        match driver:
            case None:
                return None
            case "master-key":
                if visit.acts_as is None:
                    return None
                return await self._store.identities.act_as(visit.acts_as, visit.request_id)
            case "local-token" | "oidc":
                return await self._remembered(driver, token, visit)
            case _:
                assert_never(driver)

    async def _remembered(self, driver: Driver, token: str, visit: Visit) -> Caller | None:
        known = self._known.get(token)
        if known is not None and self._clock() < known[1]:
            return known[0]
        endings = self._endings
        if driver == "oidc":
            caller = await self._vouched_for(token, visit)
        else:
            caller = await self._store.identify(token)
        if caller is not None and endings == self._endings:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[token] = (caller, self._clock() + min(KNOWN_S, _left_s(caller)))
        return caller

    async def _vouched_for(self, token: str, visit: Visit) -> Caller | None:
        vouched = None if self._verifier is None else await self._verifier.vouched(token)
        if vouched is None or self._config.oidc is None:
            return None
        return await self._store.identities.find(
            vouched,
            make=self._config.oidc.bind_on_first_use,
            first_owns=self._config.auto_grant_first_user_system_owner,
            request_id=visit.request_id,
        )


def _left_s(caller: Caller) -> float:
    if caller.expires_at is None:
        return inf
    return (datetime.fromisoformat(caller.expires_at) - datetime.now(UTC)).total_seconds()


def too_many(wait_s: float, detail: str) -> Problem:
    """Return the refusal of a caller that is too fast."""
    return Problem(429, "rate_limited", detail, retry_after=ceil(wait_s))
