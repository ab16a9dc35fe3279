"""How long to wait before the next try: exponential with full jitter, capped (8.9)."""

import math
import random
from collections.abc import Callable

FIRST_S = 0.5
CAP_S = 30.0
HEALTHY_S = 60.0
"""A connection that lived as long as this starts the count anew."""
MOST_DOUBLINGS = 10
"""Beyond it the cap holds anyway, and a float would one day overflow."""


class Backoff:
    """Counts failures in a row. No I/O; the caller waits."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        self.failures = 0

    def failed(self, at_least_s: float | None = None) -> float:
        """Count a failure; return the seconds to wait, never fewer than the server asked for."""
        limit = min(CAP_S, math.ldexp(FIRST_S, min(self.failures, MOST_DOUBLINGS)))
        self.failures += 1
        return max(limit * self._draw(), at_least_s or 0.0)

    def succeeded(self) -> None:
        """Forget the failures."""
        self.failures = 0

    def lived(self, seconds: float) -> None:
        """Forget the failures if what has just ended was healthy for long enough."""
        if seconds >= HEALTHY_S:
            self.succeeded()
