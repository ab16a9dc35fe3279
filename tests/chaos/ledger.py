"""What the clients of a server know: each batch they sent, and what they were told of it."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

Json = dict[str, Any]
Receipt = tuple[str, int, str, str]
"""Id, seq, time and key of an event, as its author was told."""
ABSENT = ("thread_not_found", "forbidden")
"""How somebody without a grant is refused, whatever they say: also a repeat (6.2)."""


class Batch(msgspec.Struct, kw_only=True, eq=False):
    """One batch as it was sent, and repeated unchanged until somebody answered."""

    author: str
    thread_id: str
    events: list[Json]
    expected_seq: int | None = None
    doomed: bool = False
    """It breaks a rule, so that nothing of it may ever land."""
    lost: int = 0
    """How often it was sent without an answer: one of these may still land, or have landed."""
    receipts: list[Receipt] | None = None
    refused: str | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of its events, in order."""
        return [event["key"] for event in self.events]

    @property
    def body(self) -> Json:
        """The body of its request."""
        expected = {} if self.expected_seq is None else {"expectedSeq": self.expected_seq}
        return {"events": self.events, **expected}

    @property
    def landed(self) -> bool | None:
        """Whether it is in the log; None: nobody was told."""
        if self.receipts is not None:
            return True
        if self.doomed or (self.refused is not None and not self.lost):
            return False
        return None


class Ledger:
    """Every batch, every thread made under a key; `faults` grows when two answers contradict."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.threads: dict[tuple[str, str], str] = {}
        self.faults: list[str] = []

    def sent(self, batch: Batch) -> Batch:
        """Note a batch, before it is sent for the first time."""
        self.batches.append(batch)
        return batch

    def acknowledged(self, batch: Batch, receipts: Sequence[Json]) -> None:
        """Note that a batch was answered 201, or 200 when all of it was there already."""
        told = [(one["id"], one["seq"], one["ts"], one["key"]) for one in receipts]
        if batch.doomed:
            self.faults.append(f"taken, though it breaks a rule: {batch.keys} as {told}")
        if batch.receipts is not None and batch.receipts != told:
            self.faults.append(f"two receipts of {batch.keys}: {batch.receipts} and {told}")
        batch.receipts = told

    def refused(self, batch: Batch, code: str) -> None:
        """Note that a batch was answered 4xx."""
        if batch.receipts is not None and code not in ABSENT:
            self.faults.append(f"acknowledged, then refused as {code}: {batch.keys}")
        batch.refused = code

    def made(self, author: str, key: str, thread_id: str) -> None:
        """Note the thread that a key stands for."""
        if self.threads.setdefault((author, key), thread_id) != thread_id:
            self.faults.append(f"two threads of key {key}: {thread_id} as well")

    def of(self, author: str, thread_id: str) -> Iterator[Batch]:
        """Yield what one author has sent to one thread, in order."""
        for batch in self.batches:
            if (batch.author, batch.thread_id) == (author, thread_id):
                yield batch
