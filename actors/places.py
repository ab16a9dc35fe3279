"""Places for sessions: how many may work at once, and how many processes there may be.

Shared by the QueryActors of one bot, like a trio primitive: whoever waits is served in the order it
came. A session works during a turn; it is parked while it only waits for a person; else it rests,
keeps its process, and makes room when somebody needs it. No session is counted without a process.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal

import trio

from actors.census import Census

State = Literal["works", "parked", "rests", "leaves"]


class Place:
    """What one session, open or not, has of the places. Made by `Places.place`."""

    def __init__(self, places: "Places") -> None:
        self._places = places
        self.state: State | None = None
        """None: it has no process."""
        self.make_room: Callable[[], None] = lambda: None
        """Called while it rests, once, when its process is needed elsewhere."""

    def try_work(self) -> bool:
        """Return whether the session may work at once, and have a process if it has none."""
        return self._places.try_admit(self)

    async def work(self) -> None:
        """Return when it may, in the order in which it was asked for."""
        await self._places.admit(self)

    @property
    def before(self) -> int:
        """Return how many wait before this one, and it not counted."""
        return self._places.before(self)

    def park(self) -> None:
        """It waits for a person: another one may work meanwhile."""
        self._become("works", "parked")

    def unpark(self) -> None:
        """It goes on, at once, even beyond the limit: the person waits already."""
        self._become("parked", "works")

    def wake(self) -> None:
        """It works by itself, and was not asked to: nobody can make it wait."""
        self._become("rests", "works")
        self._become("parked", "works")

    def rest(self, make_room: Callable[[], None]) -> None:
        """Its turn is over; the process stays until `make_room` is called."""
        if self.state in ("works", "parked"):
            self.make_room = make_room
            self.state = "rests"
            self._places.changed(self)

    def leave(self) -> None:
        """Its process is gone; again is well."""
        if self.state is not None:
            self.state = None
            self._places.changed(self)

    def _become(self, before: State, after: State) -> None:
        if self.state == before:
            self.state = after
            self._places.changed(self)


class Places:
    """Counts who works and who has a process."""

    def __init__(self, *, working: int = 20, processes: int = 40) -> None:
        self._most_working, self._most_processes = working, processes
        self._held: dict[Place, None] = {}
        """Those with a process; who rests longest comes first."""
        self._queue: deque[tuple[Place, trio.Event]] = deque()

    def place(self) -> Place:
        """Return a place that holds nothing yet."""
        return Place(self)

    def statistics(self) -> Census:
        """Return how many have a process, and how many wait."""
        return Census(sessions=len(self._held), waiting=len(self._queue))

    def before(self, place: Place) -> int:
        """Return how many wait before that one."""
        waiting = [other for other, _ in self._queue]
        return waiting.index(place) if place in waiting else 0

    def try_admit(self, place: Place) -> bool:
        """Return whether that place works now; nobody who waits is passed."""
        if self._queue or not self._admits(place):
            return False
        self._begin(place)
        return True

    async def admit(self, place: Place) -> None:
        """Return when that place works. Cancelled, it is as before."""
        if self.try_admit(place):
            return  # without a checkpoint, at which what was given could be lost
        before, waits = place.state, (place, trio.Event())
        self._queue.append(waits)
        self._ask_for_room()
        try:
            await waits[1].wait()
        except trio.Cancelled:
            if waits in self._queue:
                self._queue.remove(waits)
                self._serve()
            else:  # it was given between the cancelling and now
                place.state = before
                self.changed(place)
            raise

    def changed(self, place: Place) -> None:
        """Count a place anew, as the newest; serve who waits."""
        self._held.pop(place, None)
        if place.state is not None:
            self._held[place] = None
        self._serve()

    def _serve(self) -> None:
        while self._queue and self._admits(self._queue[0][0]):
            place, turn = self._queue.popleft()
            self._begin(place)
            turn.set()
        self._ask_for_room()

    def _begin(self, place: Place) -> None:
        self._held.pop(place, None)
        place.state = "works"
        self._held[place] = None

    def _admits(self, place: Place) -> bool:
        has_process = place.state is not None or len(self._held) < self._most_processes
        return has_process and self._working() < self._most_working

    def _working(self) -> int:
        return sum(place.state == "works" for place in self._held)

    def _ask_for_room(self) -> None:
        """Have resting processes end for those who wait for nothing else."""
        waiting = {place for place, _ in self._queue}
        needed = sum(place.state is None for place in waiting)
        needed = min(needed, self._most_working - self._working())
        coming = sum(place.state == "leaves" for place in self._held)
        coming += self._most_processes - len(self._held)
        resting = [p for p in self._held if p.state == "rests" and p not in waiting]
        for place in resting[: max(0, needed - coming)]:
            place.state = "leaves"
            place.make_room()
