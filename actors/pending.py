"""What waits to be appended: deltas merge until they leave, and nothing that left changes again."""

from collections import deque
from collections.abc import Sequence

import msgspec

from actors.events import (
    DataNotice,
    Draft,
    Notice,
    PartPayload,
    ReasoningDelta,
    RunFinishedPayload,
    RunStartedPayload,
    TextDelta,
    part,
)
from actors.ports import Keyed

MERGED_CHARS = 16_384
"""A merged delta grows no longer than this, so that no event nears the server's limit."""
BATCH_EVENTS = 256
BATCH_CHARS = 400_000
"""Of text, input and output in one batch; the server takes 1 MiB of JSON."""


class Pending:
    """The way out of one thread, in order. No I/O.

    Drafts come in by `add`; `hand_out` names the next batch, which stays the batch in hand,
    unchanged, until `landed`.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._in_hand: list[Keyed] = []
        self._next_key: dict[str, int] = {}
        self._urgent = 0
        self._marked: set[str] = set()

    def __len__(self) -> int:
        """Return how many drafts wait or are in hand."""
        return len(self._waiting) + len(self._in_hand)

    @property
    def urgent(self) -> bool:
        """Whether something waits that people should not be made to wait for: all but deltas."""
        return self._urgent > 0

    def add(self, drafts: Sequence[Draft]) -> None:
        """Queue drafts; a delta joins the last one if that continues the same part."""
        for draft in drafts:
            new = _Waiting(draft)
            if not (self._waiting and self._waiting[-1].take(new)):
                self._waiting.append(new)
                self._urgent += new.delta is None

    def hand_out(self) -> list[Keyed]:
        """Return the batch in hand, after taking one if there is none; empty when nothing waits."""
        if self._in_hand:
            return list(self._in_hand)
        chars = 0
        while self._waiting and len(self._in_hand) < BATCH_EVENTS and chars < BATCH_CHARS:
            waiting = self._waiting.popleft()
            self._urgent -= waiting.delta is None
            chars += waiting.chars
            self._in_hand.append(waiting.keyed or self._key(waiting.draft()))
        return list(self._in_hand)

    def landed(self) -> list[Keyed]:
        """Let go of the batch in hand and return it."""
        batch, self._in_hand = self._in_hand, []
        self._marked.clear()
        for keyed in batch:
            if keyed.draft.type == "run_finished":
                self._next_key.pop(keyed.draft.run_id, None)
        return batch

    def split(self) -> None:
        """Keep only the first event in hand; the others go back to the head of what waits."""
        first, *rest = self._in_hand
        self._in_hand = [first]
        self._waiting.extendleft(_Waiting(keyed.draft, keyed) for keyed in reversed(rest))
        self._urgent += len(rest)

    def mend(self, index: int, code: str) -> bool:
        """Put a marker in place of an event in hand that the server will never take.

        A marker that is refused too is left out. False: nothing can be done, the batch is lost.
        Beginning and end of a run cannot be left out; in their place stands the barest of each.
        """
        keyed = self._in_hand[index]
        if keyed.key not in self._marked:
            self._marked.add(keyed.key)
            self._in_hand[index] = Keyed(keyed.key, _marker(keyed.draft, code))
            return True
        if keyed.draft.type != "message_part":
            return False
        del self._in_hand[index]
        return True

    def _key(self, draft: Draft) -> Keyed:
        number = self._next_key.get(draft.run_id, 0)
        self._next_key[draft.run_id] = number + 1
        return Keyed(f"{draft.run_id}/{number}", draft)


class _Waiting:
    """A draft and the deltas that joined it, or a draft that has its key already."""

    __slots__ = ("_draft", "_texts", "chars", "delta", "keyed")

    def __init__(self, draft: Draft, keyed: Keyed | None = None) -> None:
        self._draft, self.keyed = draft, keyed
        self.delta = _delta(draft) if keyed is None else None
        self._texts = [self.delta.delta] if self.delta else []
        self.chars = len(self.delta.delta) if self.delta else _chars(draft)

    def take(self, other: "_Waiting") -> bool:
        """Take in the delta that follows, if it continues this one."""
        mine, its = self.delta, other.delta
        if mine is None or its is None or type(mine) is not type(its) or mine.id != its.id:
            return False
        if self._draft.run_id != other._draft.run_id or self.chars + other.chars > MERGED_CHARS:
            return False
        self._texts += other._texts
        self.chars += other.chars
        return True

    def draft(self) -> Draft:
        if self.delta is None or len(self._texts) == 1:
            return self._draft
        whole = msgspec.structs.replace(self.delta, delta="".join(self._texts))
        return part(self._draft.run_id, whole)


def _delta(draft: Draft) -> TextDelta | ReasoningDelta | None:
    chunk = draft.payload.chunk if isinstance(draft.payload, PartPayload) else None
    return chunk if isinstance(chunk, TextDelta | ReasoningDelta) else None


def _chars(draft: Draft) -> int:
    return len(msgspec.json.encode(draft.payload))


def _marker(draft: Draft, code: str) -> Draft:
    if isinstance(draft.payload, RunStartedPayload):
        bare_start = msgspec.structs.replace(draft.payload, agent=None)
        return msgspec.structs.replace(draft, payload=bare_start)
    if isinstance(draft.payload, RunFinishedPayload):
        bare_end = msgspec.structs.replace(draft.payload, reason=None)
        return msgspec.structs.replace(draft, payload=bare_end)
    text = f"A part of this answer could not be shown: the server refused it ({code})."
    return part(draft.run_id, DataNotice(data=Notice("warning", "event_refused", text)))
