"""How much each caller may ask for: one bucket a name, refilled by time."""

from collections.abc import Callable

import trio

from scuba.server.config import Rate

_MANY = 4_096


class Buckets:
    """Counts by name. Full buckets are forgotten, so idle names cost no memory."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = trio.current_time) -> None:
        self._step_s = 1 / rate.per_s
        self._depth_s = rate.burst * self._step_s
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def take(self, name: str) -> float:
        """Take one. Return 0, or the seconds until there is one again (nothing is taken then)."""
        now = self._clock()
        full_at = max(self._full_at.get(name, now), now) + self._step_s
        if full_at - now > self._depth_s + 1e-9:
            return full_at - now - self._depth_s
        if len(self._full_at) >= _MANY:
            self._full_at = {who: at for who, at in self._full_at.items() if at > now}
        self._full_at[name] = full_at
        return 0.0
