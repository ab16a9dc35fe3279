"""Who is behind a credential that is no token of ours, and how long one is good (2.2, 2.5)."""

from collections.abc import Callable

from scuba.server.store import identities, tokens
from scuba.server.store.changes import SYSTEM, Caller
from scuba.server.store.engine import Engine, Write
from scuba.server.store.ways import Ways


class Identities(Ways):
    """Every method raises Problem, as those of `Store` do."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        super().__init__(engine)
        self._now_ms = now_ms

    async def find(
        self,
        vouched: identities.Vouched,
        *,
        make: bool,
        first_owns: bool = False,
        request_id: str | None = None,
    ) -> Caller | None:
        """Return whom an issuer's subject is bound to; None for nobody, but with `make` a new user.

        Raises Problem 403 `principal_disabled`.
        """

        def work(w: Write) -> Caller:
            w.request_id = request_id
            return identities.find_or_make(w, vouched, first_owns=first_owns)

        while True:
            found = await self._engine.read(lambda tx: identities.find(tx, vouched))
            if found is not None or not make:
                return found
            try:
                return await self._engine.write(work)
            except identities.BoundMeanwhile:
                continue

    async def bind(self, principal_id: str, issuer: str, subject: str) -> bool:
        """Bind a subject to a principal, for set-up code. Returns whether that is new.

        Raises Problem 404 for an unknown principal, 409 when the subject is somebody else's.
        """
        return await self._write(identities.bind, SYSTEM, principal_id, issuer, subject)

    async def act_as(self, principal_id: str, request_id: str | None) -> Caller | None:
        """Return the principal that a master key acts as, None for an unknown one; audited (2.2).

        Raises Problem 403 `principal_disabled`.
        """

        def work(w: Write) -> Caller | None:
            w.request_id = request_id
            return identities.act_as(w, principal_id)

        return await self._engine.write(work)

    async def left_s(self, caller: Caller) -> float:
        """Return how long a caller's credential is still good, in seconds; `inf` for ever.

        Raises Problem 401 when it has ended, 403 `principal_disabled`.
        """
        return await self._read(tokens.left_s, caller, self._now_ms())
