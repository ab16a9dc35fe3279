"""One-for-one supervision: restart a crashed actor, but not for ever."""

import logging
from collections.abc import Awaitable, Callable, Mapping

import trio

logger = logging.getLogger(__name__)


async def supervise(
    start: Callable[[], Awaitable[None]],
    *,
    name: str,
    intensity: int = 3,
    period_s: float = 60.0,
    backoff_s: float = 0.5,
    park: bool = False,
    extra: Mapping[str, object] | None = None,
) -> bool:
    """Run `start()`; when it crashes, wait and run it anew. Return True once it returns.

    More than `intensity` crashes in `period_s` seconds are too many: then the last one is raised,
    so that the nursery above decides, or with `park` it is only logged and False comes back. The
    wait doubles with each crash in the period. `extra` goes on every log line, beside `actor` and
    `crashes`. Being cancelled is no crash: `trio.Cancelled` is not an `Exception` and passes
    straight through.
    """
    crashes: list[float] = []
    while True:
        try:
            await start()
        except Exception:
            now = trio.current_time()
            crashes = [*(at for at in crashes if at >= now - period_s), now]
            fields = {**(extra or {}), "actor": name, "crashes": len(crashes)}
            if len(crashes) <= intensity:
                logger.exception("actor crashed, restarting", extra=fields)
            elif park:
                logger.exception("actor crashed too often, parked", extra=fields)
                return False
            else:
                raise
        else:
            return True
        await trio.sleep(backoff_s * 2 ** (len(crashes) - 1))
