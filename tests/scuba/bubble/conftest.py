"""A bot's log against a scripted peer, under the mock clock."""

from collections.abc import AsyncIterator

import pytest
import trio

from scuba.bubble import BubbleClient, BubbleLog
from tests.kit.scripted_peer import PRINCIPAL, Peer

TOKEN = "bubble_agent_marker0123456789"


@pytest.fixture
async def peer(nursery: trio.Nursery) -> Peer:
    return Peer(nursery)


@pytest.fixture
async def client() -> AsyncIterator[BubbleClient]:
    async with BubbleClient("http://127.0.0.1:1", TOKEN) as client:
        yield client


@pytest.fixture
async def log(peer: Peer, client: BubbleClient) -> BubbleLog:
    return BubbleLog(client, instance_id="i-1", principal_id=PRINCIPAL, dial=peer.dial)
