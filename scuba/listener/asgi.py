"""The words of ASGI 3 that server and app share, and the one wall between them."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from scuba.listener.writing import ConnectionGone

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def contained(
    call: Callable[[], Awaitable[None]], what: str, left: Callable[[], bool] = lambda: False
) -> bool:
    """Run `call()`; return whether it came back by itself. What it raises is logged here, once.

    `left` says whether the client was gone by then: an app that stumbles over that is no news.
    Cancellation, and whatever else is no `Exception`, passes, also out of a mixed group.
    """
    fine = True
    try:
        await call()
    except* ConnectionGone as group:
        fine = False
        logger.debug("%s lost its client: %s", what, group.exceptions[0])
    except* Exception as group:  # a guest may end its connection, not the server
        fine = False
        cause = group.exceptions[0] if len(group.exceptions) == 1 else group
        if left():
            logger.info("%s ended after its client had left", what, exc_info=cause)
        else:
            logger.exception("%s crashed", what, exc_info=cause)
    return fine
