"""Cursors that wait to be written: the newest of each, each at most once a second. No I/O (10)."""

from scuba.server.store.consumer_cursors import CursorKey, Mark

PERIOD_S = 1.0


class Unwritten:
    """What is newer than the store; the caller brings the time. A mark never goes back."""

    def __init__(self) -> None:
        self._marks: dict[CursorKey, Mark] = {}
        self._written_at: dict[CursorKey, float] = {}

    def __len__(self) -> int:
        """Return how many cursors wait."""
        return len(self._marks)

    @property
    def recent(self) -> int:
        """How many cursors are remembered for having been written; `take` forgets the older."""
        return len(self._written_at)

    def get(self, key: CursorKey) -> Mark | None:
        """Return what waits of a cursor."""
        return self._marks.get(key)

    def put(self, key: CursorKey, mark: Mark) -> None:
        """Have a mark written later, unless a further one waits already."""
        held = self._marks.get(key)
        if held is None or mark.seq > held.seq:
            self._marks[key] = mark

    def note_written(self, key: CursorKey, now: float) -> None:
        """This cursor is written right now: its next write is a second away."""
        self._written_at[key] = now

    def take(self, now: float, most: int) -> list[tuple[CursorKey, Mark]]:
        """Return up to `most` marks to write now; each waits until `settle` says it is written."""
        recent = {key: at for key, at in self._written_at.items() if at + PERIOD_S > now}
        due = [(key, mark) for key, mark in self._marks.items() if key not in recent][:most]
        self._written_at = recent | {key: now for key, _ in due}
        return due

    def take_all(self) -> list[tuple[CursorKey, Mark]]:
        """Return every mark, however recent the last write."""
        return list(self._marks.items())

    def settle(self, written: list[tuple[CursorKey, Mark]]) -> None:
        """Forget the marks that were written, but for what has been overtaken meanwhile."""
        for key, mark in written:
            if self._marks.get(key) == mark:
                del self._marks[key]
