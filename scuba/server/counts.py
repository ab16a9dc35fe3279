"""What an operator counts: plain numbers on the way, put into words only when somebody asks."""

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import partial

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_S = (0.005, 0.02, 0.05, 0.1, 0.5, 2.0)
COMMIT_S = (0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
BATCH = (1, 4, 16, 64, 256)
FAN_OUT_S = (0.005, 0.02, 0.05, 0.15, 0.5, 2.0, 10.0)


class Spread:
    """How values are spread: how many were at most each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return each bound with how many values were at most that; the last is all of them."""
        total, found = 0, list[tuple[str, float]]()
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else str(bound), total))
        return found


class Pace:
    """How the store commits. Only its writer counts."""

    def __init__(self) -> None:
        self.writes, self.seconds = Spread(BATCH), Spread(COMMIT_S)
        self.failures = 0

    def committed(self, writes: int, seconds: float) -> None:
        """One transaction of so many writes took so long."""
        self.writes.add(writes)
        self.seconds.add(seconds)


class Counts:
    """What one server has done since it began. No number has a thread or principal in its name."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By route, method, and status."""
        self.request_s: defaultdict[str, Spread] = defaultdict(partial(Spread, REQUEST_S))
        self.events = 0
        """Seen committed, whoever made them."""
        self.frames = self.frame_events = self.frame_bytes = 0
        """Of events, sent by sockets."""
        self.closes: Counter[int] = Counter()
        """Of sockets, by code."""
        self.slow_subscribes = 0
        """Refused with `rate_limited`."""
        self.fan_out_s = Spread(FAN_OUT_S)
        """From a commit to the frame that brings a reader to the head."""

    def request(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """Count one answered HTTP request; what is no route or method of ours is `other`."""
        name = route or "other"
        self.requests[name, method if method in METHODS else "other", status] += 1
        self.request_s[name].add(seconds)

    def sent(self, events: int, size_bytes: int) -> None:
        """Count one frame of events."""
        self.frames += 1
        self.frame_events += events
        self.frame_bytes += size_bytes
