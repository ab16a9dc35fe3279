"""A run while parts of the network are away, and a flood over a slow one; real processes."""

import json
from datetime import datetime
from itertools import pairwise

import trio

from tests.kit.apart import Apart
from tests.kit.claude_env import fake_cli
from tests.kit.person import Event, Seen, faults

BACK_S = 90.0
"""For a socket to be back: the longest pause between two tries is 30 s, and it may be drawn."""
ALWAYS = 1_000_000
DELTAS_A_SECOND, FLOOD_S, SIZE = 3_000, 4, 8


async def test_a_run_goes_on_without_its_socket_and_then_without_a_server(parted: Apart) -> None:
    """Field case 8.10: first only the socket is away, then everything; nothing lost or doubled."""
    bot = parted.start_bot()
    rest = " ;; %%sleep 2 ;; ".join(f"%%say word{number}" for number in range(1, 5))
    at = await parted.talk.say(f"%%say word0 ;; %%sleep 2 ;; {rest}")
    await parted.talk.said(at, "word0")
    parted.network.answer("GET /v1/ws", 503, times=ALWAYS)
    parted.network.drop()

    await parted.talk.said(at, "word2")  # by HTTP, while there is no socket
    assert "the connection to the Bubble server failed" in bot.stdout
    parted.network.refuse()
    parted.network.drop()
    await trio.sleep(3)
    parted.network.clear()
    parted.network.accept()
    seen = await parted.talk.answered(at, within_s=BACK_S)

    assert seen.text() == "word0word1word2word3word4"
    assert seen.statuses() == ["completed"]
    assert not faults(await parted.talk.events())


async def test_grants_that_change_while_the_socket_cannot_come_back_count(parted: Apart) -> None:
    """Field case 8.12: two tries fail, then the snapshot tells what was missed."""
    parted.start_bot()
    await parted.talk.ask("before")
    parted.network.answer("GET /v1/ws", 500, times=2)
    parted.network.drop()
    new = await parted.me.new_thread(parted.bot_id)
    await parted.me.revoke(parted.talk.thread_id, parted.bot_id)

    assert (await new.answered(await new.say("hello"), within_s=BACK_S)).text() == "echo: hello"
    at = await parted.talk.say("are you still there?")
    await new.ask("and you?")
    assert not (await parted.talk.events(at)).runs()


async def test_a_flood_of_deltas_is_merged_on_its_way_to_a_slow_server(parted: Apart) -> None:
    """Field case 14.3: 3,000 a second, and 80 ms for each append."""
    parted.network.delay_s = 0.04  # each way
    parted.start_bot(parted.config(claude={"cliPath": str(fake_cli(parted.place / "cli"))}))
    await parted.talk.ask("warm")
    flood: list[dict[str, float]] = [
        {"load": DELTAS_A_SECOND // 10, "size": SIZE, "batch": 30, "gap_s": 0.01}
        for _ in range(FLOOD_S * 10)
    ]

    seen = await parted.talk.ask(json.dumps(flood))

    deltas = [one for one in seen if is_delta(one)]
    took_s = when(deltas[-1]) - when(deltas[0])
    assert len(seen.text()) == DELTAS_A_SECOND * FLOOD_S * SIZE
    assert len(deltas) <= 10 * took_s + 10
    assert when(deltas[0]) - when(start_of(seen)) < 2
    gaps = [when(two) - when(one) for one, two in pairwise(deltas)]
    assert max(gaps) < 2
    assert not faults(seen)


def is_delta(event: Event) -> bool:
    return bool(event["payload"].get("chunk", {}).get("type") == "text-delta")


def start_of(seen: Seen) -> Event:
    return next(event for event in seen if event["type"] == "run_started")


def when(event: Event) -> float:
    """Return the server's time of an event, in seconds."""
    return datetime.fromisoformat(str(event["ts"])).timestamp()
