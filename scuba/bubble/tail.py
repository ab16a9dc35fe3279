"""Follow one thread as whoever the token belongs to; for people at a terminal and for tests."""

import uuid
from collections.abc import AsyncGenerator, Sequence

import trio

from scuba.bubble.http import BubbleClient
from scuba.bubble.live import Live
from scuba.bubble.patience import Patience
from scuba.bubble.subscription import Subscription
from scuba.wire import Envelope

BATCHES = 16
"""That wait for the reader; a slower one is a laggard, which costs a new subscription."""


@trio.as_safe_channel
async def follow(client: BubbleClient, thread_id: str, after: int = 0) -> AsyncGenerator[Envelope]:
    """Yield every event of a thread from `after + 1` on, through reconnects, until left.

    Use it as `async with follow(…) as envelopes: async for envelope in envelopes: …`. Raises
    IdentityRefused, ConfigError or ScubaError, in a group, when no further try makes sense.
    """
    live = Live(client, Patience(), instance_id=f"tail-{uuid.uuid4().hex[:8]}")
    send, batches = trio.open_memory_channel[Sequence[Envelope]](BATCHES)
    subscription = Subscription(thread_id, after, send, list, lambda _: ())
    async with trio.open_nursery() as nursery, send, batches:
        await nursery.start(live.run)
        with live.following(subscription):
            async for batch in batches:
                for envelope in batch:
                    yield envelope
