"""The two ways down from what a caller asks to the database: reading, and writing as who asks."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from scuba.server.store.changes import Caller
from scuba.server.store.engine import Engine, Tx, Write
from scuba.server.store.visibility import require_live

P = ParamSpec("P")
T = TypeVar("T")


class Ways:
    """What the store and its parts have in common; owns nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def set_up(self, work: Callable[[Write], T]) -> T:
        """Return what set-up code did as the server itself: all of it in one write, or nothing."""
        return await self._engine.write(work)

    async def _read(
        self,
        rule: Callable[Concatenate[Tx, Caller, P], T],
        caller: Caller,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a rule finds, on one consistent state."""
        return await self._engine.read(lambda tx: rule(tx, caller, *args, **kwargs))

    async def _write(
        self,
        rule: Callable[Concatenate[Write, Caller, P], T],
        caller: Caller,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a rule did, once it is on disk; its caller was still good then (3.7)."""

        def work(w: Write) -> T:
            require_live(w, caller, w.now)
            w.request_id = caller.request_id
            return rule(w, caller, *args, **kwargs)

        return await self._engine.write(work)
