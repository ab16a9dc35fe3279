"""Consumer cursors: the others see how far the bot is, and nothing waits for that."""

from functools import partial

import pytest
import trio
from trio.testing import MockClock

from scuba.bubble import BubbleClient, BubbleLog, receipts
from tests.kit.fake_server import fake_server
from tests.kit.scripted_peer import Peer
from tests.scuba.bubble.test_live import A, B, Reader, running


async def test_a_receipt_is_the_latest_seq_and_rare(
    autojump_clock: MockClock, peer: Peer, log: BubbleLog
) -> None:
    peer.add(A, 90)
    reader = Reader()
    async with running(log), log.subscribe(A, 0, reader.inbox):
        await reader.read_to(90)
        log.mark(B, 1)  # nobody follows it: dropped
        for seq in range(1, 91):
            log.mark(A, seq)
            await trio.sleep(0.1)
        await trio.sleep(4)

    said = [(frame["threadId"], frame["seq"]) for frame in peer.heard_of("client.cursor")]
    assert 2 <= len(said) <= 5
    assert said[-1] == (A, 90)
    assert peer.dials == 1


async def test_the_server_shows_it_and_a_refused_one_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receipts, "EVERY_S", 0.05)
    async with fake_server() as server, BubbleClient(server.url, server.bot.token) as client:
        thread_id = await server.make_thread(server.bot)
        seq = await server.say(thread_id, "hello")
        log = BubbleLog(client, instance_id="i", principal_id=server.bot.id)
        reader, held = Reader(), list[int]()
        listing = partial(server.store.consumers.listing, server.user.caller, thread_id)
        async with running(log), log.subscribe(thread_id, 0, reader.inbox):
            with trio.fail_after(5):
                await reader.read_to(seq)
                log.mark(thread_id, 999)  # beyond the log: refused
                await trio.sleep(0.1)
                log.mark(thread_id, seq)
                while not held:
                    held = [item.seq for item in (await listing(limit=9, after=None))[0]]
                await reader.read_to(await server.say(thread_id, "more"))

            assert held == [seq]
            assert log.statistics().reconnects == 0
