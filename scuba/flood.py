"""A bound on how often one message is logged, which never hides that it happened."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Window(Generic[Item]):
    def __init__(self, began: float) -> None:
        self.began = began
        self.passed = 0
        self.held = 0
        self.latest: Item | None = None


class Flood(Generic[Item]):
    """Passes the first `most` items of a kind in each window; counts the rest. No I/O.

    The latest of those held back comes out when its window is over, with their number. At most
    `kinds` kinds are remembered; the one longest silent is let go first.
    """

    def __init__(self, most: int = 10, window_s: float = 60.0, kinds: int = 1000) -> None:
        self._most, self._window_s, self._kinds = most, window_s, kinds
        self._windows: OrderedDict[Hashable, _Window[Item]] = OrderedDict()

    def take(self, kind: Hashable, item: Item, now: float) -> bool:
        """Return whether the item passes. Call `due` before, so that a window can end."""
        window = self._windows.get(kind)
        if window is None or now >= window.began + self._window_s:
            window = self._windows[kind] = _Window(now)
        self._windows.move_to_end(kind)
        if window.passed < self._most:
            window.passed += 1
            return True
        window.held += 1
        window.latest = item
        return False

    def due(self, now: float) -> list[tuple[Item, int]]:
        """Return the latest item of each kind whose window is over, with how many were held."""
        over = [
            (kind, window)
            for kind, window in self._windows.items()
            if now >= window.began + self._window_s
        ]
        excess = len(self._windows) - len(over) - self._kinds
        over += [pair for pair in list(self._windows.items())[: max(0, excess)] if pair not in over]
        for kind, _ in over:
            del self._windows[kind]
        return [(window.latest, window.held) for _, window in over if window.latest is not None]
