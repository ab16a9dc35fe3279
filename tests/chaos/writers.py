"""Who writes during a round: runs, messages, batches that must fail, and repeats of all that."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import count

import trio

from tests.chaos.client import Client
from tests.chaos.ledger import Batch, Json

PAUSE_S = 0.03


def part(run_id: str, **chunk: object) -> Json:
    """Return an event that is one chunk of a message."""
    return {"type": "message_part", "runId": run_id, "payload": {"chunk": chunk}}


def text(run_id: str, words: str, id_: str = "t") -> list[Json]:
    """Return a whole text part."""
    return [
        part(run_id, type="text-start", id=id_),
        part(run_id, type="text-delta", id=id_, delta=words),
        part(run_id, type="text-end", id=id_),
    ]


class Gate:
    """Lets writers work while it is open, and tells when nobody works any more."""

    def __init__(self) -> None:
        self._open = trio.Event()
        self._idle = trio.Event()
        self._idle.set()
        self._working = 0

    def open(self) -> None:
        """Let them work."""
        self._open.set()

    async def close(self) -> None:
        """Return once each has finished what it had in hand."""
        self._open = trio.Event()
        while self._working:
            self._idle = trio.Event()
            await self._idle.wait()

    async def work(self, job: Callable[[], Awaitable[None]]) -> None:
        """Do one job when the gate is open."""
        while not self._open.is_set():
            await self._open.wait()
        self._working += 1
        try:
            await job()
        finally:
            self._working -= 1
            self._idle.set()


class Writer:
    """One lane of one principal: what is uncertain is repeated before anything newer is said."""

    def __init__(self, client: Client, threads: Sequence[str], name: str) -> None:
        self.client, self.threads, self.name = client, threads, name
        self.random = client.random
        self._numbers = count(1)
        self._done: list[Batch] = []

    async def run(self, gate: Gate) -> None:
        """Write until cancelled."""
        jobs = [self.a_run, self.a_message, self.behind, self.a_refused_batch, self.a_repeat]
        weights = [3, 3, 2, 2, 2]
        while True:
            (job,) = self.random.choices(jobs, weights)
            await gate.work(job)
            await trio.sleep(PAUSE_S)

    async def a_run(self) -> None:
        """Begin a run, say something in several batches, end it."""
        thread_id, run_id = self._anywhere(), f"run_{self.name}_{next(self._numbers)}"
        started = {"type": "run_started", "runId": run_id, "payload": {}}
        ended = {"type": "run_finished", "runId": run_id, "payload": {"status": "completed"}}
        deltas = [part(run_id, type="text-delta", id="t", delta=f"{n} ") for n in range(1, 6)]
        steps = [
            [started, part(run_id, type="text-start", id="t"), *deltas[:1]],
            deltas[1:3],
            deltas[3:],
            [part(run_id, type="text-end", id="t"), ended],
        ]
        for step in steps:
            if (await self._append(thread_id, step)).refused is not None:
                return

    async def a_message(self) -> None:
        """Say something bare, in one batch."""
        run_id = f"msg_{self.name}_{next(self._numbers)}"
        texts = [text(run_id, "words " * 5, f"t{n}") for n in range(self.random.randint(1, 3))]
        await self._append(self._anywhere(), [event for one in texts for event in one])

    async def behind(self) -> None:
        """Say something if nobody has said anything since (6.3)."""
        thread_id, run_id = self._anywhere(), f"msg_{self.name}_{next(self._numbers)}"
        seqs = (b.receipts[-1][1] for b in self._done if b.thread_id == thread_id and b.receipts)
        last = max(seqs, default=1)
        await self._append(thread_id, text(run_id, "behind"), expected_seq=last)

    async def a_refused_batch(self) -> None:
        """Send good events with a bad one behind them: nothing of it may stay."""
        run_id = f"msg_{self.name}_{next(self._numbers)}"
        bad = {"type": "run_finished", "runId": "run_never", "payload": {"status": "completed"}}
        await self._append(self._anywhere(), [*text(run_id, "never"), bad], doomed=True)

    async def a_repeat(self) -> None:
        """Send something old once more, or send one new thing twice at once: one receipt."""
        if self._done and self.random.random() < 0.5:
            await self.client.append(self.random.choice(self._done))
            return
        run_id = f"msg_{self.name}_{next(self._numbers)}"
        batch = self._batch(self._anywhere(), text(run_id, "twice"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.client.append, batch)
            nursery.start_soon(self.client.append, batch)

    async def _append(
        self,
        thread_id: str,
        events: list[Json],
        *,
        expected_seq: int | None = None,
        doomed: bool = False,
    ) -> Batch:
        batch = self._batch(thread_id, events, expected_seq=expected_seq, doomed=doomed)
        await self.client.append(batch)
        if batch.receipts is not None:
            self._done.append(batch)
        return batch

    def _batch(self, thread_id: str, events: list[Json], **more: object) -> Batch:
        keyed = [{**event, "key": f"{self.name}/{next(self._numbers)}"} for event in events]
        make: Callable[..., Batch] = Batch
        author = self.client.principal_id
        return self.client.ledger.sent(
            make(author=author, thread_id=thread_id, events=keyed, **more)
        )

    def _anywhere(self) -> str:
        return self.random.choice(self.threads)


class Granter:
    """Gives and takes one principal's role on threads, and makes threads under few keys."""

    def __init__(self, client: Client, threads: Sequence[str], whom: str) -> None:
        self.client, self.threads, self.whom = client, threads, whom
        self.random = client.random

    async def run(self, gate: Gate) -> None:
        """Change grants until cancelled."""
        while True:
            (job,) = self.random.choices([self.give, self.take, self.make], [3, 3, 1])
            await gate.work(job)
            await trio.sleep(PAUSE_S * 5)

    async def give(self) -> None:
        """Grant some role somewhere."""
        thread_id = self.random.choice(self.threads)
        await self.client.grant(thread_id, self.whom, self.random.choice(["member", "owner"]))

    async def take(self) -> None:
        """Revoke it somewhere."""
        await self.client.revoke(self.random.choice(self.threads), self.whom)

    async def make(self) -> None:
        """Make a thread, or find it made."""
        await self.client.make_thread(f"made/{self.random.randint(1, 5)}")
