"""What waits to be appended: deltas merge until they leave, and nothing that left changes again."""

from collections import deque
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from actors.events import (
    DataNotice,
    Draft,
    Notice,
    Opens,
    PartPayload,
    ReasoningDelta,
    RunFinishedPayload,
    RunStartedPayload,
    TextDelta,
    ToolInputAvailable,
    ToolMetadata,
    part,
)
from actors.ports import Keyed

MERGED_CHARS = 16_384
"""A merged delta grows no longer than this, so that no event nears the server's limit."""
BATCH_EVENTS = 256
BATCH_CHARS = 400_000
"""Of text, input and output in one batch; the server takes 1 MiB of JSON."""
MOST_CHARS = 1_000_000
"""That wait in memory; beyond it what waits is put on record, and is only there."""
EVENT_CHARS = 500
"""What an event weighs in memory beside its text."""
MOST_TEXTS = 64
"""Pieces of a merged delta; each weighs more than its text."""
BACK_EVENTS = 64
"""Taken back at once."""

P = TypeVar("P", RunStartedPayload, RunFinishedPayload)


class Opening(msgspec.Struct, frozen=True):
    """A call of a run that needs a subthread before it may leave."""

    run_id: str
    call: Opens


class Pending:
    """The way out of one thread, in order. No I/O.

    Drafts come in by `add`; `hand_out` names the next batch, which stays the batch in hand,
    unchanged, until `landed`. What is too much for memory `put_away` names; it leaves before all
    that came later, once `take_back` has brought it.
    """

    def __init__(self) -> None:
        self.parent_id = ""
        """The thread above, which the run of a sub-agent names at its beginning."""
        self._in_hand: list[Keyed] = []
        self._head: deque[Keyed] = deque()
        self._away: deque[_Stretch] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._chars = 0
        self._next_key: dict[str, int] = {}
        self._urgent = 0
        self._marked: set[str] = set()

    def __len__(self) -> int:
        """Return how many drafts wait, here or away, or are in hand."""
        away = sum(stretch.end - stretch.first for stretch in self._away)
        return len(self._in_hand) + len(self._head) + away + len(self._waiting)

    @property
    def keys(self) -> int:
        """For how many runs keys are counted."""
        return len(self._next_key)

    @property
    def urgent(self) -> bool:
        """Whether something waits that people should not be made to wait for: all but deltas."""
        return self._urgent > 0 or bool(self._head or self._away)

    @property
    def chars(self) -> int:
        """How much waits in memory, beside what is in hand."""
        return self._chars

    def add(self, drafts: Sequence[Draft]) -> None:
        """Queue drafts; a delta joins the last one if that continues the same part."""
        for draft in drafts:
            new = _Waiting(draft)
            self._chars += new.chars
            if not (self._waiting and self._waiting[-1].take(new)):
                self._waiting.append(new)
                self._chars += EVENT_CHARS
                self._urgent += new.delta is None

    def opens(self) -> Opening | None:
        """Return which subthread is needed before anything more can leave."""
        if self._in_hand or self._head or self._away or not self._waiting:
            return None
        draft = self._waiting[0].first
        return None if draft.opens is None else Opening(draft.run_id, draft.opens)

    def opened(self, child_thread_id: str | None) -> None:
        """Let go the call that `opens` named, with the id of its subthread, if it has one."""
        waiting = self._waiting[0]
        waiting.first = _with_child(waiting.first, child_thread_id)

    def hand_out(self) -> list[Keyed]:
        """Return the batch in hand, after taking one if there is none; empty when none is here."""
        chars = BATCH_CHARS if self._in_hand else 0
        while len(self._in_hand) < BATCH_EVENTS and chars < BATCH_CHARS:
            if self._head:
                self._in_hand.append(self._head.popleft())
                chars += _chars(self._in_hand[-1].draft)
            elif self._waiting and not self._away and self._waiting[0].first.opens is None:
                chars += self._waiting[0].chars
                self._in_hand.append(self._take_next())
            else:
                break
        return list(self._in_hand)

    def put_away(self) -> list[Keyed]:
        """Return what waits in memory, to be put on record at once: it is nowhere else now.

        What needs a subthread stays, and what comes after it.
        """
        gone: list[Keyed] = []
        while self._waiting and self._waiting[0].first.opens is None:
            gone.append(self._take_next())
        for keyed in gone:
            number = int(keyed.key.rpartition("/")[2])
            run_id, last = keyed.draft.run_id, self._away[-1] if self._away else None
            if last is None or last.run_id != run_id:
                last = _Stretch(run_id, number)
                self._away.append(last)
            last.end = number + 1
        return gone

    def needs(self) -> list[str]:
        """Return the keys of what has to be taken back before more can leave."""
        if self._in_hand or self._head or not self._away:
            return []
        next_ = self._away[0]
        end = min(next_.end, next_.first + BACK_EVENTS)
        return [f"{next_.run_id}/{number}" for number in range(next_.first, end)]

    def take_back(self, events: Sequence[Keyed]) -> None:
        """Have again what `needs` named, in that order."""
        self._head.extend(events)
        stretch = self._away[0]
        stretch.first = min(stretch.end, stretch.first + BACK_EVENTS)
        if stretch.first == stretch.end:
            self._away.popleft()

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
        self._head.extendleft(reversed(rest))

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

    def _take_next(self) -> Keyed:
        """Return the first that waits in memory, under its key."""
        waiting = self._waiting.popleft()
        self._urgent -= waiting.delta is None
        self._chars -= waiting.chars + EVENT_CHARS
        draft = _with_parent(waiting.draft(), self.parent_id)
        number = self._next_key.get(draft.run_id, 0)
        self._next_key[draft.run_id] = number + 1
        return Keyed(f"{draft.run_id}/{number}", draft)


class _Stretch:
    """Events of one run that are away: the numbers of their keys, from `first` to before `end`."""

    __slots__ = ("end", "first", "run_id")

    def __init__(self, run_id: str, first: int) -> None:
        self.run_id, self.first, self.end = run_id, first, first


class _Waiting:
    """A draft and the deltas that joined it."""

    __slots__ = ("_texts", "chars", "delta", "first")

    def __init__(self, draft: Draft) -> None:
        self.first = draft
        self.delta = _delta(draft)
        self._texts = [self.delta.delta] if self.delta else []
        self.chars = len(self.delta.delta) if self.delta else _chars(draft)

    def take(self, other: "_Waiting") -> bool:
        """Take in the delta that follows, if it continues this one."""
        mine, its = self.delta, other.delta
        if mine is None or its is None or type(mine) is not type(its) or mine.id != its.id:
            return False
        if self.first.run_id != other.first.run_id or self.chars + other.chars > MERGED_CHARS:
            return False
        self._texts += other._texts
        if len(self._texts) > MOST_TEXTS:
            self._texts = ["".join(self._texts)]
        self.chars += other.chars
        return True

    def draft(self) -> Draft:
        if self.delta is None or self.chars == len(self.delta.delta):
            return self.first
        whole = msgspec.structs.replace(self.delta, delta="".join(self._texts))
        return part(self.first.run_id, whole)


def settles(last: Draft) -> bool:
    """Return whether the end of a run settles input."""
    return _read(last.payload, RunFinishedPayload).through_seq is not None


def _with_child(draft: Draft, child_thread_id: str | None) -> Draft:
    payload = draft.payload
    assert isinstance(payload, PartPayload)
    chunk = payload.chunk
    assert isinstance(chunk, ToolInputAvailable)
    if child_thread_id is not None:
        metadata = ToolMetadata(child_thread_id)
        chunk = msgspec.structs.replace(
            chunk, child_thread_id=child_thread_id, tool_metadata=metadata
        )
    return part(draft.run_id, chunk)


def _with_parent(draft: Draft, parent_id: str) -> Draft:
    payload = draft.payload
    if not isinstance(payload, RunStartedPayload) or payload.parent is None:
        return draft
    parent = msgspec.structs.replace(payload.parent, thread_id=parent_id)
    whole = msgspec.structs.replace(payload, parent=parent)
    return msgspec.structs.replace(draft, payload=whole)


def _delta(draft: Draft) -> TextDelta | ReasoningDelta | None:
    chunk = draft.payload.chunk if isinstance(draft.payload, PartPayload) else None
    return chunk if isinstance(chunk, TextDelta | ReasoningDelta) else None


def _read(payload: object, kind: type[P]) -> P:
    """Return a payload as it was before it was put on record."""
    if isinstance(payload, msgspec.Raw):
        return msgspec.json.decode(payload, type=kind)
    assert isinstance(payload, kind)
    return payload


def _chars(draft: Draft) -> int:
    return len(msgspec.json.encode(draft.payload))


def _marker(draft: Draft, code: str) -> Draft:
    payload = draft.payload
    if draft.type == "run_started":
        bare_start = msgspec.structs.replace(_read(payload, RunStartedPayload), agent=None)
        return msgspec.structs.replace(draft, payload=bare_start)
    if draft.type == "run_finished":
        bare_end = msgspec.structs.replace(_read(payload, RunFinishedPayload), reason=None)
        return msgspec.structs.replace(draft, payload=bare_end)
    text = f"A part of this answer could not be shown: the server refused it ({code})."
    return part(draft.run_id, DataNotice(data=Notice("warning", "event_refused", text)))
