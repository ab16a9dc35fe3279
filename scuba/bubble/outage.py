"""Says in the log that something is down and up again, without flooding it (field case 12.3)."""

import logging
from collections.abc import Callable

import trio

EVERY_S = 60.0
"""Between two lines about one outage."""


class Outage:
    """Logs the first failure and the recovery always, the failures between once a minute."""

    def __init__(
        self, log: logging.Logger, what: str, now: Callable[[], float] = trio.current_time
    ) -> None:
        self._log, self._what, self._now = log, what, now
        self._failures = 0
        self._began_at = 0.0
        self._said_at = 0.0

    def failed(self, detail: str) -> None:
        """Count a failure, and log it if it is the first or a minute has passed."""
        now = self._now()
        self._failures += 1
        if self._failures == 1:
            self._began_at = now
            self._log.warning("%s failed: %s", self._what, detail)
        elif now - self._said_at >= EVERY_S:
            self._log.warning(
                "%s has failed %d times in %.0f s: %s",
                self._what,
                self._failures,
                now - self._began_at,
                detail,
            )
        else:
            return
        self._said_at = now

    def recovered(self) -> None:
        """Log that it works again, if it did not."""
        if self._failures:
            self._log.info(
                "%s works again after %d failures in %.1f s",
                self._what,
                self._failures,
                self._now() - self._began_at,
            )
            self._failures = 0
