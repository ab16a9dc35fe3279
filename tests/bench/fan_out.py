"""From an append to the last of a thousand sockets, beside plain sends of the same bytes."""

import http.client
import json
import selectors
import socket
import statistics
import sys
import time
import uuid
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.parse import urlsplit

import trio

from tests.bench.crowd import Crowd, Member, crowd
from tests.bench.measure import Figure, ms
from tests.bench.serving import Served, Serving, Wanted, serving

SIZES = (200, 1_000)
ROUNDS = 30


async def figures(place: Path) -> list[Figure]:
    """Measure for each size; the crowd is in this process, the server in another."""
    found: list[Figure] = []
    for size in SIZES:
        floor = await trio.to_thread.run_sync(plain, size)
        wanted = Wanted(store=f"sqlite:{place}/{size}.db", sockets=size + 16)
        async with serving(wanted) as server:
            found += await measured(server, size, floor)
    return found


async def measured(server: Serving, size: int, floor: list[float]) -> list[Figure]:
    with crowd() as everybody:
        await trio.to_thread.run_sync(gather, everybody, server.facts, size)
        before = await server.usage()
        firsts, middles, lasts = await trio.to_thread.run_sync(talk, everybody, server.facts)
        cpu_s = (await server.usage()).cpu_s - before.cpu_s
    each_us = cpu_s / ROUNDS / size * 1e6
    return [
        Figure(
            f"append sent → the last of {size:,} sockets has it", ms(lasts), ms(floor), "≤ 150 ms"
        ),
        Figure(f"… the median one of {size:,}", ms(middles)),
        Figure(f"… the first one of {size:,}", ms(firsts)),
        Figure(f"… processor time of the server for each socket, {size:,}", f"{each_us:.0f} µs"),
    ]


def gather(everybody: Crowd, facts: Served, size: int) -> None:
    for _ in range(size):
        everybody.join(facts.url, facts.user_token, facts.threads[0])


def talk(everybody: Crowd, facts: Served) -> tuple[list[float], list[float], list[float]]:
    """Return, of each round, how long until the first, the median and the last socket had it."""
    netloc = urlsplit(facts.url).netloc
    connection = http.client.HTTPConnection(netloc, timeout=60)
    headers = {"Authorization": f"Bearer {facts.bot_token}", "Content-Type": "application/json"}
    firsts: list[float] = []
    middles: list[float] = []
    lasts: list[float] = []
    for _ in range(ROUNDS):
        mark = f"mark-{uuid.uuid4().hex}"
        body = json.dumps({"events": [message(mark)]})
        began = time.perf_counter()
        path = f"/v1/threads/{facts.threads[0]}/events"
        connection.request("POST", path, body, headers)
        moments = everybody.wait_until_all_have(mark.encode())
        assert connection.getresponse().read(), "no answer"
        firsts.append(moments[0] - began)
        middles.append(statistics.median(moments) - began)
        lasts.append(moments[-1] - began)
        time.sleep(0.05)
    connection.close()
    return firsts, middles, lasts


def message(mark: str) -> dict[str, object]:
    chunk = {"type": "text-delta", "id": "t", "delta": f"{mark} {'x' * 100}"}
    return {"type": "message_part", "payload": {"chunk": chunk}, "key": mark}


# --- the floor ---------------------------------------------------------------------------------


def plain(size: int) -> list[float]:
    """Return how long one send to each of so many sockets takes, until the last is read."""
    sender = Popen(
        [sys.executable, "-m", "tests.bench.fan_out", str(size)], stdin=PIPE, stdout=PIPE
    )
    assert sender.stdin is not None
    assert sender.stdout is not None
    took: list[float] = []
    with sender, crowd() as everybody:
        port = int(sender.stdout.readline())
        for _ in range(size):
            everybody.add(Member(socket.create_connection(("127.0.0.1", port))))
        for _ in range(ROUNDS):
            mark = uuid.uuid4().hex
            began = time.perf_counter()
            sender.stdin.write(mark.encode() + b"\n")
            sender.stdin.flush()
            took.append(everybody.wait_until_all_have(mark.encode())[-1] - began)
        sender.stdin.close()
    return took


def send_plainly(size: int) -> None:
    """Send each line of the input to so many sockets, in a frame's worth of bytes."""
    with socket.create_server(("127.0.0.1", 0), backlog=size) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        sockets = [listener.accept()[0] for _ in range(size)]
    selector = selectors.DefaultSelector()
    for each in sockets:
        selector.register(each, selectors.EVENT_READ)
    for line in sys.stdin.buffer:
        data = line.strip() + b"x" * 400
        for each in sockets:
            each.send(data)
    for each in sockets:
        each.close()


if __name__ == "__main__":
    send_plainly(int(sys.argv[1]))
