"""A sub-agent's thread is archived when it is done, and nobody has said anything there since."""

import logging

import trio

from actors.events import RunFinished
from actors.ports import Refused, ThreadLog

logger = logging.getLogger(__name__)


async def archive_later(log: ThreadLog, thread_id: str, run_id: str, after_s: float) -> None:
    """Archive a thread after so long, if the end of that run is still the last thing on it.

    Whatever refuses it is logged. Cancelled before, the thread stays as it is.
    """
    await trio.sleep(after_s)
    try:
        newest = await log.window(thread_id, 0, 1)
        last = newest[-1] if newest else None
        if last is not None and last.run_id == run_id and isinstance(last.body, RunFinished):
            await log.archive(thread_id)
            logger.info("archived", extra={"thread_id": thread_id})
    except Refused as refused:
        logger.warning("not archived: %s", refused, extra={"thread_id": thread_id})
