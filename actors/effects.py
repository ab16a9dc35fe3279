"""What a conversation makes happen, in order; `actors.thread` does it."""

import msgspec

from actors.events import Event
from actors.messages import (
    Append,
    ApprovalAnswered,
    ApprovalAsked,
    Close,
    Decide,
    Interrupt,
    RunEnded,
    StartTurn,
    StopAside,
)
from actors.ports import OpenRun

HERE = ""
"""The thread itself, as the place of a run."""


class Begin(msgspec.Struct, frozen=True):
    """A run begins: put it on record before anything of it is said."""

    run: OpenRun


class See(msgspec.Struct, frozen=True):
    """Input up to `seq` waits: put it on record, so that it is answered whatever happens."""

    seq: int


class Settle(msgspec.Struct, frozen=True):
    """Everything that was final at or below `seq` is answered: move the checkpoint."""

    seq: int


class Excuse(msgspec.Struct, frozen=True):
    """It was our own stop that cut the run in hand: put on record that this was no try."""


class Fetch(msgspec.Struct, frozen=True):
    """The beginning of this run was never seen: read it, then say `RunFetched`."""

    run_id: str


class LookUp(msgspec.Struct, frozen=True):
    """It matters who these are: ask, then say `PeopleFound`."""

    principal_ids: tuple[str, ...]


class LookBack(msgspec.Struct, frozen=True):
    """It matters what was said before: read it, then say `PastRead`."""


class Own(msgspec.Struct, frozen=True):
    """A run that answers no prompt is of the agent here; said again once its thread is known."""

    run_id: str
    thread_id: str | None = None


class Release(msgspec.Struct, frozen=True):
    """Such a run is over."""

    run_id: str


class Archive(msgspec.Struct, frozen=True):
    """A sub-agent is done: its subthread may be archived, in a while."""

    thread_id: str
    run_id: str


class Forward(msgspec.Struct, frozen=True):
    """Somebody stops a run, or answers a call of it, that is not of the agent here."""

    event: Event


class GoBack(msgspec.Struct, frozen=True):
    """Leave as you stand, and begin anew where the log ends now."""

    head: int


class Leave(msgspec.Struct, frozen=True):
    """Drained: nothing is in hand any more."""


Effect = (
    Begin
    | GoBack
    | See
    | StartTurn
    | Decide
    | Interrupt
    | StopAside
    | Close
    | Own
    | Release
    | Archive
    | Forward
    | ApprovalAsked
    | ApprovalAnswered
    | RunEnded
    | Append
    | Settle
    | Excuse
    | Fetch
    | LookUp
    | LookBack
    | Leave
)
