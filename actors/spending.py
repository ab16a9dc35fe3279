"""What a thread has cost, against what it may: counted on record, and an end to it."""

import logging
from math import inf

from msgspec.structs import asdict, replace

from actors.harness import AnySaid, TurnEnded, Used
from actors.messages import SessionEnded
from actors.ports import Journal

logger = logging.getLogger(__name__)

CODE = "thread_budget"


class Spending:
    """Knows the cost of one thread, all of its sessions together. The journal keeps it."""

    def __init__(
        self, thread_id: str, journal: Journal, *, budget_usd: float = inf, is_shown: bool = False
    ) -> None:
        """`is_shown`: what a turn used is said on the thread as well."""
        self._thread_id, self._journal = thread_id, journal
        self._budget_usd, self._is_shown = budget_usd, is_shown

    @property
    def left_usd(self) -> float:
        """What the thread may still cost; 0 when it is used up, ``inf`` without a budget."""
        return max(0.0, self._budget_usd - self._journal.spent_usd(self._thread_id))

    @property
    def over(self) -> SessionEnded | None:
        """How a turn is told that it may not begin; None as long as it may."""
        return SessionEnded(code=CODE, text=self._text()) if self.left_usd <= 0 else None

    async def count(self, said: tuple[AnySaid, ...]) -> tuple[AnySaid, ...]:
        """Put on record and log what was used; return what of it the thread is told."""
        for item in said:
            if isinstance(item, Used):
                await self._journal.spend(self._thread_id, item.cost_usd)
                rounded = replace(
                    item, cost_usd=round(item.cost_usd, 6), duration_s=round(item.duration_s, 3)
                )
                extra = {"thread_id": self._thread_id, **asdict(rounded)}
                logger.info("turn used", extra=extra)
        return tuple(
            self._told(item) for item in said if self._is_shown or not isinstance(item, Used)
        )

    def _told(self, item: AnySaid) -> AnySaid:
        """Return how a turn ended; by the thread's budget if it was that which cut it."""
        if isinstance(item, TurnEnded) and item.code == "budget" and self.left_usd <= 0:
            return replace(item, code=CODE, text=self._text())
        return item

    def _text(self) -> str:
        spent_usd = self._journal.spent_usd(self._thread_id)
        return (
            f"This thread has cost {spent_usd:.2f} US dollars and may cost {self._budget_usd:.2f}. "
            "The agent is not asked any more here. Raise `budget.perThreadUsd` in scuba's settings "
            "and start scuba anew, or go on in a new thread."
        )
