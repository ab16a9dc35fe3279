"""What following a thread takes time for, so that the task that reads the socket need not wait."""

import logging
from collections.abc import Sequence
from typing import Any, assert_never

import trio

from actors.ports import Refused
from scuba.bubble.http import BubbleClient
from scuba.bubble.patience import Patience
from scuba.bubble.subscription import AskLater, Behind, Subscription, Task, following
from scuba.bubble.subscriptions import Subscriptions
from scuba.wire import Envelope

logger = logging.getLogger(__name__)


class Errands:
    """Each method ends in a new request for the subscription, unless its thread is left."""

    def __init__(
        self,
        client: BubbleClient,
        patience: Patience,
        subscriptions: Subscriptions,
        max_message_bytes: int,
    ) -> None:
        self._client, self._patience, self._subscriptions = client, patience, subscriptions
        self._max_message_bytes = max_message_bytes

    async def run(self, task: Task) -> None:
        """Do what a frame led to."""
        match task:
            case Behind():
                await self._hand_over(task)
            case AskLater():
                await self._ask_later(task)
            case _:
                assert_never(task)

    async def _hand_over(self, behind: Behind) -> None:
        """Wait until a full inbox takes what it was sent, then go on behind it."""
        subscription = behind.subscription
        with subscription.scope:
            await self._send(subscription, behind.message)
            subscription.cursor = behind.cursor
            self._subscriptions.ask(subscription)

    async def fetch(self, subscription: Subscription[Any]) -> None:
        """Hand over by HTTP what the socket could not carry, up to the head (8.9, 1009)."""
        with subscription.scope:
            try:
                while await self._hand_over_page(subscription):
                    pass
            except Refused as refused:
                logger.warning("reading thread %s: %s", subscription.thread_id, refused)
            self._subscriptions.ask(subscription)

    async def _hand_over_page(self, subscription: Subscription[Any]) -> bool:
        page = await self._patience.until_answered(
            lambda: self._client.page(subscription.thread_id, after=subscription.cursor)
        )
        events, _ = following(subscription.cursor, page.events)
        if not events:
            return False
        self._tell_big(events)
        await self._send(subscription, subscription.events(events))
        subscription.cursor = events[-1].seq
        return page.has_more

    def _tell_big(self, events: Sequence[Envelope]) -> None:
        for event in events:
            size_bytes = len(bytes(event.payload))
            if size_bytes > self._max_message_bytes:
                logger.warning(
                    "seq %d of thread %s has %d bytes; it was read by HTTP",
                    event.seq,
                    event.thread_id,
                    size_bytes,
                )

    async def _send(self, subscription: Subscription[Any], message: object) -> None:
        try:
            await subscription.inbox.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.debug("nobody reads thread %s any more", subscription.thread_id)
            self._subscriptions.remove(subscription)
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _ask_later(self, later: AskLater) -> None:
        await trio.sleep(later.after_s)
        if self._subscriptions.still_asked(later):
            self._subscriptions.ask(later.subscription)
