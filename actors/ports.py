"""What actors need from the outside, as protocols that `scuba/` fills.

Every method may be cancelled at any await; none holds a lock across one that a caller can see.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Literal, Protocol

import msgspec
import trio

from actors.events import Draft, Event, Opens
from actors.harness import AnySaid, Attachment, Decision
from actors.messages import ThreadGranted, ThreadInbox, ThreadRevoked
from actors.people import Person


class Position(msgspec.Struct, frozen=True):
    """A place in one log, for all time (1.6)."""

    log_epoch: str
    seq: int


class Keyed(msgspec.Struct, frozen=True):
    """A draft with the key under which it is appended; never changes again (6.2)."""

    key: str
    draft: Draft


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was begun and is not settled yet."""

    run_id: str
    prompt_id: str
    through_seq: int
    tries: int = 1
    """How often its input was begun without being settled, this run included."""
    resumes: Literal["nothing", "session", "input"] = "nothing"
    """What it takes up of an earlier run for the same input: the harness's session, in which the
    agent is told to go on, or the input itself, quoted because a tool may have run for it."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal holds of a thread beside its checkpoint and session."""

    unsent: tuple[Keyed, ...] = ()
    """Events whose receipts were not seen, in order."""
    run: OpenRun | None = None
    seen: int = 0
    """Input up to here was waiting for an earlier process of ours."""


class Unavailable(Exception):
    """The server could not be reached, or asks to wait. The same call may be repeated.

    `is_limit`: it works, and only has had too much of this caller (12).
    """

    def __init__(
        self, detail: str, retry_after_s: float | None = None, *, is_limit: bool = False
    ) -> None:
        super().__init__(detail)
        self.retry_after_s, self.is_limit = retry_after_s, is_limit


class Refused(Exception):
    """The server said no. The same call will be refused again."""

    def __init__(self, code: str, detail: str, status: int, index: int | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail, self.status, self.index = code, detail, status, index


class SessionFailed(Exception):
    """A harness session could not start, or ended by itself.

    `code` is stable, `text` is for people (no path, no secret), `detail` for the operator's log.
    `lost_session`: the session to resume is unknown to the harness, or another one came in its
    place; a fresh one may work.
    """

    def __init__(
        self, code: str, text: str, detail: str = "", *, lost_session: bool = False
    ) -> None:
        super().__init__(f"{code}: {detail or text}")
        self.code, self.text, self.detail, self.lost_session = code, text, detail, lost_session


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What a harness's own record shows of one prompt of an earlier process."""

    fate: Literal["unknown", "unseen", "unfinished", "answered"]
    """unknown: there is no record that could tell; unseen: the record never got the prompt;
    unfinished: it did, and no end followed; answered: the turn came to its end."""
    texts: tuple[str, ...] = ()
    """The assistant's text blocks since the prompt, in order, without those of sub-agents."""
    tools: tuple[str, ...] = ()
    """Names of the tools that were called since the prompt (whether or not a result is there)."""


class HarnessSession(Protocol):
    """One live conversation with a harness. Made by `Harness.open`, closed by its context."""

    @property
    def session_id(self) -> str:
        """By which the harness resumes this conversation; may change during a session."""
        ...

    async def receive(self) -> Sequence[AnySaid]:
        """Return all that waits, at least one item, in order.

        Raises SessionFailed when the session has ended, after everything it said was returned.
        """
        ...

    async def prompt(
        self, prompt_id: str, text: str, attachments: Sequence[Attachment] = ()
    ) -> None:
        """Begin a turn. Raises SessionFailed when the harness does not take it in time.

        An id is given once: a harness may drop a prompt that its record knows already.
        """
        ...

    def decide(self, tool_call_id: str, decision: Decision) -> bool:
        """Answer a permission; False (and no effect) when it is not waiting."""
        ...

    async def interrupt(self, prompt_id: str) -> None:
        """Ask for the end of the turn; return when it is acknowledged. May wait for ever."""
        ...

    async def stop_aside(self, tool_call_id: str) -> None:
        """Stop one sub-agent; no effect when it is over. Raises SessionFailed like `prompt`."""
        ...


class Harness(Protocol):
    """Opens sessions. One per kind of agent, shared by all threads."""

    @property
    def name(self) -> str:
        """For `run_started.agent`."""
        ...

    def model_of(self, thread_id: str) -> str | None:
        """As configured for a thread; None for the harness's own default."""
        ...

    def open(
        self, thread_id: str, resume: str | None, *, budget_usd: float = inf
    ) -> AbstractAsyncContextManager[HarnessSession]:
        """Start a session for a thread, resuming `resume` when given.

        A turn with which all turns of the session cost more than `budget_usd` is stopped.
        Entering raises SessionFailed. Leaving ends the process tree, shielded, within 8 s.
        """
        ...

    async def evidence(self, thread_id: str, session_id: str | None, prompt_id: str) -> Evidence:
        """Return what its record shows; never raises for what the record holds.

        Call it while no session of the thread is open.
        """
        ...


class ThreadLog(Protocol):
    """The Bubble server as seen by one bot: append and read by HTTP, live by one socket."""

    @property
    def log_epoch(self) -> str:
        """Of the server's log; known once connected."""
        ...

    @property
    def is_alone(self) -> bool:
        """Whether, when last connected, no other process was connected as this bot."""
        ...

    async def append(self, thread_id: str, events: Sequence[Keyed]) -> Sequence[int]:
        """Append all or nothing; return their seqs in order. One attempt.

        Raises Unavailable (repeat unchanged) or Refused (`index`: the event to blame, if one is).
        """
        ...

    async def open_subthread(self, thread_id: str, key: str, run_id: str, call: Opens) -> str:
        """Return the subthread of this key; it is made if it is not there (4.2).

        One attempt. Raises Unavailable or Refused.
        """
        ...

    async def archive(self, thread_id: str) -> None:
        """Archive a thread: it takes nothing more. Retries and raises as `window`."""
        ...

    async def window(self, thread_id: str, after: int, newest: int) -> Sequence[Event]:
        """Return at most the newest `newest` events above `after`, ascending.

        The beginning of a run or bare message that the window would cut is included, even from
        below `after`. Retries by itself while the server is unavailable; raises Refused.
        """
        ...

    async def run_events(self, thread_id: str, run_id: str) -> Sequence[Event]:
        """Return every event of one run, ascending. Retries and raises as `window`."""
        ...

    async def people(self, thread_id: str, principal_ids: Collection[str]) -> Sequence[Person]:
        """Return who takes part in a thread, and of these principals those it tells about.

        Retries and raises as `window`.
        """
        ...

    async def content(self, thread_id: str, url: str, most_bytes: int) -> bytes | None:
        """Return what an artifact of the thread holds, by its address on this server.

        None for any other address: nothing else is fetched. Retries as `window`; raises Refused,
        `too_big` when it has more bytes.
        """
        ...

    def subscribe(
        self, thread_id: str, after: int, inbox: trio.MemorySendChannel[ThreadInbox]
    ) -> AbstractAsyncContextManager[None]:
        """Send `EventsSeen` (gapless from `after + 1`) and `CaughtUp` to `inbox` until left.

        Lives through reconnects. Never blocks the socket: a full inbox is a laggard, which is
        unsubscribed and resumed at its cursor once it has taken what it was sent. `WentBack` is
        the last word when the log ends below that cursor. The grants
        stream, not the subscription, tells of a lost thread.
        """
        ...

    def mark(self, thread_id: str, seq: int) -> None:
        """Have the others on a thread told how far the bot has come. A receipt: it may get lost."""
        ...

    async def grants(self, into: trio.MemorySendChannel[ThreadGranted | ThreadRevoked]) -> None:
        """Send each change of this bot's thread grants, snapshot first, until cancelled."""
        ...


class Journal(Protocol):
    """The local store of one bot. What it is told is durable on return."""

    def checkpoints(self) -> Mapping[str, Position]:
        """Return the settlement checkpoint of every thread that has one."""
        ...

    async def record(self, thread_id: str) -> Record:
        """Return what is not settled of a thread."""
        ...

    async def adopt(self, log_epoch: str) -> Sequence[str]:
        """Belong to this log from now on; put aside what is not settled of any other.

        Returns the threads of which something was put aside.
        """
        ...

    async def see(self, thread_id: str, seq: int) -> None:
        """Note that input up to `seq` waits: the next process answers it, however old it is."""
        ...

    async def begin(self, thread_id: str, run: OpenRun) -> OpenRun:
        """Note that a run begins; it takes the place of one before. Returns it with its tries."""
        ...

    async def excuse(self, thread_id: str) -> None:
        """Note that it was our own stop that cut the run on record: it counts as no try."""
        ...

    async def keep(
        self, thread_id: str, events: Sequence[Keyed], landed: Sequence[str] = ()
    ) -> None:
        """Hold events before they are sent, and let go of those with the keys `landed`."""
        ...

    async def recall(self, thread_id: str, keys: Sequence[str]) -> Sequence[Keyed]:
        """Return the events that are held under these keys, in the order of the keys."""
        ...

    async def settle(self, thread_id: str, position: Position) -> None:
        """Move a thread's checkpoint, never backwards within one log epoch.

        In the same transaction its run is over and its events are let go.
        """
        ...

    async def go_back(self, thread_id: str, position: Position) -> None:
        """Move a thread's checkpoint down to where its log ends now; put aside what is not settled.

        A checkpoint below that stays.
        """
        ...

    def session_id(self, thread_id: str) -> str | None:
        """Return the harness session to resume for a thread."""
        ...

    async def remember_session(self, thread_id: str, session_id: str | None) -> None:
        """Keep (or, with None, forget) a thread's harness session."""
        ...

    async def retire_session(self, thread_id: str, session_id: str, why: str) -> None:
        """Never resume this session of a thread again; its id stays on record, with the cause."""
        ...

    def spent_usd(self, thread_id: str) -> float:
        """Return what a thread has cost so far."""
        ...

    async def spend(self, thread_id: str, cost_usd: float) -> None:
        """Add to what a thread has cost."""
        ...

    def has_retired(self, thread_id: str) -> bool:
        """Return whether a thread's session was retired, and none has taken its place."""
        ...
