"""How a thread's sessions fare: how long to wait before the next, and when to give one up. Pure."""

from actors.harness import Told, TurnEnded

BACKOFF_S, BACKOFF_CAP_S = 0.5, 30.0
"""Between sessions that died without finishing a turn."""
MOST_ALIKE = 2
"""So often a resumed session may fail in the same way before it is given up."""
GIVEN_UP = Told(
    level="warning",
    code="session_given_up",
    text="The conversation with the agent fails in the same way each time and is given up. Send "
    "the message again: a new one begins, which knows the last messages of this thread.",
)


class Health:
    """Counts the deaths in a row, and the failures in a row that were alike."""

    def __init__(self) -> None:
        self._deaths = 0
        self._code: str | None = None
        self._alike = 0

    @property
    def wait_s(self) -> float:
        """Return how long to wait before the next session is opened."""
        if self._deaths < 2:
            return 0.0
        return float(min(BACKOFF_S * 2 ** min(self._deaths - 2, 10), BACKOFF_CAP_S))

    def died(self) -> None:
        """Count a session that could not start, or ended by itself."""
        self._deaths += 1

    def ended(self, turn: TurnEnded, *, resumed: bool) -> bool:
        """Count the end of a turn; return whether its session is to be given up.

        That is when a conversation that was taken up again is itself the cause, and is so for the
        second time in the same way: what is wrong in it will be wrong each time.
        """
        self._deaths = 0
        if turn.status == "interrupted":
            return False
        if not (turn.tainted and resumed):
            self.begun_anew()
            return False
        self._alike = self._alike + 1 if turn.code == self._code else 1
        self._code = turn.code
        return self._alike >= MOST_ALIKE

    def begun_anew(self) -> None:
        """Forget the failures of the conversation before."""
        self._code, self._alike = None, 0
