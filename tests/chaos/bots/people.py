"""People on the threads of a bot that is being broken: they write, decide, and stop runs."""

from dataclasses import dataclass
from random import Random

import httpx
import trio

from tests.kit.person import Asked, Event, Seen, Talk

GONE = (httpx.TransportError, AssertionError)
"""What the server answers, or does not, while it is killed."""


@dataclass(frozen=True)
class Message:
    """One thing that somebody said, and the seq at which it was final."""

    number: int
    seq: int


class Room:
    """One thread: what was said on it, and by whom it is decided what runs."""

    def __init__(self, talk: Talk, random: Random, first_number: int) -> None:
        self.talk, self.random = talk, random
        self.messages: list[Message] = []
        self._number = first_number
        self._decided: set[str] = set()
        self.seen = Seen()
        self._reading = trio.Lock()

    async def write(self) -> None:
        """Say things until cancelled."""
        while True:
            await trio.sleep(self.random.expovariate(1 / 0.4))
            self._number += 1
            await self._say(self._number, self.random.choice(KINDS).format(n=self._number))

    async def _say(self, number: int, text: str) -> None:
        """Say it once, however often that must be tried."""
        run = f"msg_{number}"
        chunks: list[Event] = [
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": text},
            {"type": "text-end", "id": "t"},
        ]
        events: list[Event] = [
            {
                "type": "message_part",
                "runId": run,
                "payload": {"chunk": chunk},
                "key": f"{run}/{index}",
            }
            for index, chunk in enumerate(chunks)
        ]
        receipt = await self._append(*events)
        self.messages.append(Message(number, int(receipt["lastSeq"])))

    async def decide(self) -> None:
        """Allow and deny what is asked for, and now and then stop a run, until cancelled."""
        while True:
            await trio.sleep(0.15)
            for asked in (await self.look()).requests():
                if asked.call not in self._decided:
                    await self._decide(asked)
                    self._decided.add(asked.call)
            if self.random.random() < 0.01:
                await self._interrupt()

    async def look(self) -> Seen:
        """Return everything on the thread."""
        async with self._reading:
            while True:
                try:
                    after = self.seen[-1]["seq"] if self.seen else 0
                    self.seen += await self.talk.events(after)
                except GONE:
                    await trio.sleep(0.1)
                else:
                    return self.seen

    async def look_below(self) -> list[Seen]:
        """Return everything on each subthread."""
        calls = (await self.look()).chunks("tool-input-available")
        below = [call["childThreadId"] for call in calls if "childThreadId" in call]
        return [await Talk(self.talk.who, thread_id).events() for thread_id in below]

    async def _decide(self, asked: Asked) -> None:
        # Drawn from the call, so that a decision that is said again is the same.
        decision = "allow" if Random(asked.call).random() < 0.7 else "deny"
        payload = {"toolCallId": asked.call, "decision": decision}
        body: Event = {"type": "tool_call_approval", "runId": asked.run, "payload": payload}
        await self._append(body | {"key": f"decide/{asked.call}"})

    async def _interrupt(self) -> None:
        open_runs = [run for run in self.seen.runs() if run not in ended(self.seen)]
        for run in open_runs[-1:]:
            body: Event = {"type": "run_interrupt_requested", "runId": run, "payload": {}}
            await self._append(body | {"key": f"stop/{run}"})

    async def _append(self, *events: Event) -> Event:
        """Return the receipt; tried until the server gives one, under the same keys."""
        url = f"/v1/threads/{self.talk.thread_id}/events"
        while True:
            try:
                answer = await self.talk.who.http.post(url, json={"events": list(events)})
            except httpx.TransportError:
                await trio.sleep(0.1)
                continue
            if answer.status_code in (200, 201):  # 200: it was there already
                receipt: Event = answer.json()
                return receipt
            if answer.status_code == 409:  # the run is over: nothing is left to decide
                return {}
            assert answer.status_code == 429 or answer.status_code >= 500, answer.text
            await trio.sleep(0.1)


KINDS = (
    "%%say m{n}-a",
    "%%say m{n}-a\n%%say m{n}-b",
    "%%say m{n}-a ;; %%sleep 0.3 ;; %%say m{n}-b",
    "%%say m{n}-a ;; %%sleep 1.5 ;; %%say m{n}-b",
    "%%agent %%sleep 0.2 ;; %%say of m{n}\n%%say m{n}-a",
    "%%background %%sleep 0.5 ;; %%say of m{n}\n%%say m{n}-a",
    '%%tool Bash {{"command": "touch m{n}-once; echo m{n}-ran >> ledger"}}\n%%say m{n}-a',
    '%%say m{n}-a ;; %%tool Bash {{"command": "echo m{n}-ran >> ledger; sleep 0.5"}}\n%%say m{n}-b',
)
"""What people say: scripts, whose words and deeds show which message they belong to."""


def ended(seen: Seen) -> set[str]:
    """Return the runs that are over."""
    return {event["runId"] for event in seen if event["type"] == "run_finished"}
