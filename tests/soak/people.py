"""People who talk with a bot as fast as it answers, on one thread after another."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import httpx
import trio

from tests.chaos.bots.checker import DEEDS, check_deeds, check_thread
from tests.chaos.followers import Socket, open_socket
from tests.kit.person import Event, Person, Talk

KINDS = {
    "%%say m{n}-a": 60,
    "%%think so\n%%say m{n}-a\n%%say m{n}-b": 20,
    '%%tool Bash {{"command": "echo looked"}}\n%%say m{n}-a': 6,
    '%%say m{n}-a ;; %%tool Bash {{"command": "touch allowed; echo m{n}-ran >> ledger"}}': 4,
    '%%say m{n}-a ;; %%tool Bash {{"command": "touch denied; echo m{n}-ran >> ledger"}}': 3,
    '%%agent %%tool Bash {{"command": "echo inside"}}\n%%say m{n}-a': 3,
    "%%say m{n}-a stop me ;; %%sleep 60": 2,
    "%%error 500": 1,
    '[{{"say": "m{n}-a"}}, {{"kill": 9}}]': 1,
}
"""What people say, and how often in a hundred: scripts of the fake CLI, tests/kit/fake_cli.py."""
SAYINGS = [kind for kind, weight in KINDS.items() for _ in range(weight)]
THREADS = 30
"""So many are talked on, one after the other, however many turns there are."""
AT_ONCE = 50
"""Turns that a person takes before somebody else may."""
TURN_S = 90.0
"""Longest turn that is waited for; a cut connection and a CLI that died may be in it."""


class Ear:
    """A person's socket: brings the events of the threads that are followed, each to its room."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._rooms: dict[str, trio.MemorySendChannel[Event]] = {}

    async def run(self) -> None:
        """Listen until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._socket.ping)
            while True:
                frame = await self._socket.next()
                assert frame["type"] not in ("server.error", "server.closing"), frame
                if frame["type"] == "server.events" and frame["threadId"] in self._rooms:
                    for event in frame["events"]:
                        await self._rooms[frame["threadId"]].send(event)

    @asynccontextmanager
    async def following(self, thread_id: str) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Yield the events of a thread from its beginning."""
        send, receive = trio.open_memory_channel[Event](1_000)
        self._rooms[thread_id] = send
        await self._socket.send("client.subscribe", threadId=thread_id, after=0)
        async with send, receive:
            yield receive
        del self._rooms[thread_id]
        await self._socket.send("client.unsubscribe", threadId=thread_id)


@asynccontextmanager
async def open_ear(url: str, token: str) -> AsyncIterator[Ear]:
    """Yield a socket that listens as long as the block runs."""
    async with open_socket(url, token) as socket, trio.open_nursery() as nursery:
        ear = Ear(socket)
        nursery.start_soon(ear.run)
        yield ear
        nursery.cancel_scope.cancel()


class Room:
    """One thread with a bot: what is said on it, and what comes back."""

    def __init__(self, talk: Talk, bot: str, first_number: int = 0) -> None:
        self.talk, self.bot, self.number = talk, bot, first_number
        self.said: list[int] = []
        self._stopped = ""
        self._events: trio.MemoryReceiveChannel[Event]

    @asynccontextmanager
    async def open(self, ear: Ear) -> AsyncIterator["Room"]:
        """Follow the thread as long as the block runs."""
        async with ear.following(self.talk.thread_id) as self._events:
            yield self

    async def turn(self, saying: str) -> str:
        """Say something and return how its run ended, having decided what was asked for."""
        self.number += 1
        text = saying.format(n=self.number)
        seq = await self.talk.say(text)
        self.said.append(seq)
        with trio.fail_after(TURN_S):
            while not self._covers(event := await self._events.receive(), seq):
                await self._react(event, text)
        return str(event["payload"]["status"])

    def _covers(self, event: Event, seq: int) -> bool:
        ended = event["type"] == "run_finished"
        return ended and int(event["payload"].get("throughSeq", 0)) >= seq

    async def _react(self, event: Event, text: str) -> None:
        chunk = event["payload"].get("chunk", {})
        if chunk.get("type") == "tool-approval-request":
            decision = "deny" if "denied" in text else "allow"
            payload = {"toolCallId": chunk["toolCallId"], "decision": decision}
            await self._append("tool_call_approval", event["runId"], payload)
        elif chunk.get("type") == "text-delta" and "stop me" in text:
            run = event["runId"]
            if event["principalId"] == self.bot and run != self._stopped:
                self._stopped = run
                await self._append("run_interrupt_requested", run, {})

    async def _append(self, type_: str, run: str, payload: Event) -> None:
        answer: httpx.Response = await self.talk.append(
            {"type": type_, "runId": run, "payload": payload}
        )
        assert answer.status_code in (201, 409), answer.text  # 409: the run is over

    async def below(self) -> list[str]:
        """Return the threads of the sub-agents that were called here."""
        calls = (await self.talk.events()).chunks("tool-input-available")
        return [call["childThreadId"] for call in calls if "childThreadId" in call]

    async def judge(self, ledger: Iterable[str]) -> list[str]:
        """Return every promise that the thread's log breaks; `ledger`: what all tools wrote."""
        events = await self.talk.events()
        first = self.number - len(self.said)
        own = {f"m{number}" for number in range(first + 1, self.number + 1)}
        deeds = [line for line in ledger if set(DEEDS.findall(line)) <= own]
        found = check_thread(events, self.bot, self.said)
        return found + check_deeds(deeds, {self.talk.thread_id: events}, self.bot)


class Crowd:
    """People at once, each on one thread after another, until all turns are taken."""

    def __init__(
        self,
        me: Person,
        bot: str,
        ear: Ear,
        random: Random,
        ledger: Path,
        turns: int,
        talking: int,
    ) -> None:
        """`talking`: how many of them say something at a time; the others' threads rest."""
        self.me, self.bot, self.ear, self.random = me, bot, ear, random
        self.turns, self.taken, self.rooms = turns, 0, 0
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []
        self._ledger, self._places = ledger, trio.CapacityLimiter(talking)
        self._left, self._moved = turns, trio.Event()

    async def until_taken(self, turns: int) -> None:
        """Return once so many turns are over."""
        while self.taken < turns:
            await self._moved.wait()

    async def person(self) -> None:
        """Talk until nothing is left to say, on threads that the bot is taken off afterwards."""
        while self._left > 0:
            async with self._new_room() as room:
                for _ in range(max(2, self.turns // THREADS // AT_ONCE)):
                    async with self._places:
                        await self._talk(room)
            lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
            self.faults += await room.judge(lines)
            for thread_id in [*await room.below(), room.talk.thread_id]:
                await self.me.revoke(thread_id, self.bot)

    @asynccontextmanager
    async def _new_room(self) -> AsyncIterator[Room]:
        self.rooms += 1
        first = self.rooms * 100_000
        room = Room(await self.me.new_thread(self.bot), self.bot, first)
        async with room.open(self.ear):
            yield room

    async def _talk(self, room: Room) -> None:
        for _ in range(AT_ONCE):
            if self._left <= 0:
                return
            self._left -= 1
            self.ended[await room.turn(self.random.choice(SAYINGS))] += 1
            self.taken += 1
            self._moved.set()
            self._moved = trio.Event()
