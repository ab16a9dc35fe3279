"""Every message an actor sends or receives, grouped by channel. Values only: no channel inside."""

from typing import Literal

import msgspec

from actors.events import Draft, Event, Notice
from actors.files import File
from actors.harness import AnySaid, Decision
from actors.people import Person


class Message(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """A value on a channel. A reply is matched by id, never by callback."""


# --- grants: GrantWatcher → root ---------------------------------------------------------------


class ThreadGranted(Message, frozen=True, kw_only=True):
    """The bot takes part in a thread. Said anew when it was revoked and granted while away."""

    thread_id: str
    joined_seq: int
    """Of the latest join; history since then is `seq >= joined_seq` (3.1)."""
    last_seq: int | None = None
    """Head of the thread if known: at or below the floor there is nothing to read (9.1)."""
    open_runs: tuple[str, ...] = ()
    """The bot's own runs that were never finished (4.3)."""


class ThreadRevoked(Message, frozen=True):
    """The bot no longer takes part in a thread."""

    thread_id: str


GrantChange = ThreadGranted | ThreadRevoked


# --- thread inbox ------------------------------------------------------------------------------


class EventsSeen(Message, frozen=True):
    """Committed events, ascending and without gaps; from the subscription."""

    events: tuple[Event, ...]


class CaughtUp(Message, frozen=True):
    """The subscription has sent what was head when it began."""

    seq: int


class WentBack(Message, frozen=True):
    """The server's log ends below what was read of it: an older state of the same log came back."""

    head: int


class HarnessSaid(Message, frozen=True):
    """What the harness session said, in stream order; from QueryActor."""

    said: tuple[AnySaid, ...]


class SessionEnded(Message, frozen=True, kw_only=True):
    """The harness session is gone, its process tree with it; from QueryActor.

    `code` None: it was closed on purpose. `prompt_id`: the turn it took down, if any.
    """

    prompt_id: str | None = None
    code: str | None = None
    text: str | None = None


class NotInHand(Message, frozen=True):
    """No session has this turn (any more), so there is nothing to stop; from QueryActor."""

    prompt_id: str


class ApprovalSettled(Message, frozen=True, kw_only=True):
    """The one outcome of one permission request; from ApprovalActor."""

    run_id: str
    tool_call_id: str
    decision: Decision


class ApprovalRejected(Message, frozen=True, kw_only=True):
    """An answer that does not count, or none in time: said once each; from ApprovalActor."""

    run_id: str
    notice: Notice


class RunRefused(Message, frozen=True):
    """The server will not have what this run says, so nobody sees it; from OutboxActor."""

    run_id: str
    code: str


class Landed(Message, frozen=True):
    """The run is on the server up to and with its `run_finished`, or given up; from OutboxActor."""

    run_id: str


class Opened(Message, frozen=True):
    """A call has its subthread; from OutboxActor.

    `refused`: for this the server opens none, and the thread itself is in its place.
    """

    tool_call_id: str
    thread_id: str
    refused: str | None = None


class RunControl(Message, frozen=True):
    """Somebody stops a run on a subthread, or answers a call of it; from that ThreadActor."""

    event: Event


class RunFetched(Message, frozen=True):
    """All events of a foreign run whose beginning was not seen; from the thread's own reader."""

    run_id: str
    events: tuple[Event, ...]


class PeopleFound(Message, frozen=True):
    """Who is on the thread, as far as the server tells; from the thread's own reader."""

    people: tuple[Person, ...]


class PastRead(Message, frozen=True):
    """What the thread holds of before, ascending; from the thread's own reader."""

    events: tuple[Event, ...]


class Drain(Message, frozen=True):
    """Begin no further turn, then leave; from root.

    A turn that works may come to its end; one that waits for a person is interrupted at once.
    """


class Cut(Message, frozen=True):
    """The time to come to an end is over: interrupt the turn in hand, then leave; from root."""


ThreadInbox = (
    EventsSeen
    | CaughtUp
    | WentBack
    | HarnessSaid
    | SessionEnded
    | NotInHand
    | ApprovalSettled
    | ApprovalRejected
    | RunRefused
    | Landed
    | Opened
    | RunControl
    | RunFetched
    | PeopleFound
    | PastRead
    | Drain
    | Cut
)


# --- query inbox: ThreadActor → QueryActor -----------------------------------------------------


class StartTurn(Message, frozen=True, kw_only=True):
    """Give the harness a prompt; opens the session if there is none.

    `past_seq`: what was final up to here came before; the text has what of it was left to answer.
    """

    run_id: str
    through_seq: int
    prompt_id: str
    text: str
    files: tuple[File, ...] = ()
    past_seq: int = 0


class Decide(Message, frozen=True, kw_only=True):
    """Answer a permission request of the harness."""

    tool_call_id: str
    decision: Decision


class Interrupt(Message, frozen=True):
    """Stop the turn within the cooperative budget, else by closing the session."""

    prompt_id: str


class StopAside(Message, frozen=True):
    """Stop the sub-agent that this call began, and nothing else."""

    tool_call_id: str


class Close(Message, frozen=True):
    """Close the session and leave."""


QueryInbox = StartTurn | Decide | Interrupt | StopAside | Close


# --- approvals: ThreadActor → ApprovalActor ----------------------------------------------------


class ApprovalAsked(Message, frozen=True, kw_only=True):
    """A call of a run waits for a decision."""

    run_id: str
    tool_call_id: str
    tool_name: str = ""
    is_question: bool = False
    """A yes for the run does not cover it."""


class ApprovalAnswered(Message, frozen=True, kw_only=True):
    """Somebody decided, rightly or not; may come before the question."""

    run_id: str
    tool_call_id: str
    principal_id: str
    role: str | None
    kind: Literal["approval", "result"]
    decision: Decision


class RunEnded(Message, frozen=True):
    """The run is over: whatever of it is parked or kept is forgotten."""

    run_id: str


ApprovalInbox = ApprovalAsked | ApprovalAnswered | RunEnded


# --- outbox: ThreadActor → OutboxActor ---------------------------------------------------------


class Append(Message, frozen=True):
    """Drafts to append, in order; `lane`: to the subthread that this call opened.

    A lane takes one run; without drafts, it will take none.
    """

    drafts: tuple[Draft, ...]
    lane: str | None = None


OutboxInbox = Append
