"""Which part of a thread's history a bot reads when it starts there: the policy matrix.

A thread without a checkpoint is a first join; so is one whose checkpoint is of another log, or from
before the latest join. Every other start is a resumption.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.events import Event, InterruptRequested, RunFinished
from actors.messages import ThreadGranted
from actors.ports import Position

OnFirstJoin = Literal["since_joined", "catch_up", "skip_to_head"]
OnResume = Literal["catch_up", "skip_to_head"]


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about what was said before the bot came."""

    on_first_join: OnFirstJoin = "since_joined"
    on_resume: OnResume = "catch_up"
    max_replay: int = 50
    """Events of history that are read, the newest; more when a run would be cut."""


class Start(msgspec.Struct, frozen=True):
    """Where a thread is taken up."""

    floor: int
    """Everything at or below this seq counts as settled."""
    skips: bool = False
    """So does everything that is there already."""


def start(
    granted: ThreadGranted, checkpoint: Position | None, log_epoch: str, policy: Backlog
) -> Start:
    """Return where a thread is taken up.

    The event at the join is the join itself: a thread on which nothing was said since is not worth
    a call.
    """
    settled = 0
    if checkpoint is not None and checkpoint.log_epoch == log_epoch:
        settled = checkpoint.seq
    resumes = 0 < settled >= granted.joined_seq
    how = policy.on_resume if resumes else policy.on_first_join
    floor = granted.joined_seq if how == "since_joined" else settled
    return Start(floor, skips=how == "skip_to_head" or policy.max_replay == 0)


def after_crash(policy: Backlog) -> Backlog:
    """Return the policy of a thread's next life in one process, which has skipped before."""
    return msgspec.structs.replace(policy, on_resume="catch_up", max_replay=policy.max_replay or 50)


def has_news(granted: ThreadGranted, floor_seq: int) -> bool:
    """Return whether the thread may hold events above the floor (9.1)."""
    return granted.last_seq is None or granted.last_seq > floor_seq


def answered(window: Sequence[Event], own_principal_id: str) -> int:
    """Return up to which seq our own runs in the window have settled their input; 0 for none.

    So a journal that was lost, or is older than the log, has nothing answered twice. A failed run
    was told as such, and one that somebody stopped was not wanted; what our own end cut may be.
    """
    stopped = {e.run_id for e in window if isinstance(e.body, InterruptRequested)}
    seqs = [0]
    for event in window:
        match event.body:
            case RunFinished(status=status, through_seq=int(seq)) if (
                event.principal_id == own_principal_id
                and (status != "interrupted" or event.run_id in stopped)
            ):
                seqs.append(seq)
            case _:
                pass
    return max(seqs)


def skipped(floor: int, window: Sequence[Event]) -> int:
    """Return how many events between the floor and the window nobody reads."""
    return max(0, window[0].seq - 1 - floor) if window else 0
