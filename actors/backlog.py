"""Which part of a thread's history a bot reads when it starts there.

The default policy of the first seed: without a checkpoint, what was said since the latest join;
with one, what came after it. The other policies of the matrix get their place here.
"""

from actors.messages import ThreadGranted
from actors.ports import Position


def floor(granted: ThreadGranted, checkpoint: Position | None, log_epoch: str) -> int:
    """Return the seq up to which everything counts as settled.

    A checkpoint of another log, or from before the latest join, does not count. The event at the
    join is the join itself: a thread on which nothing was said since is not worth a call.
    """
    if checkpoint is None or checkpoint.log_epoch != log_epoch:
        return granted.joined_seq
    return max(checkpoint.seq, granted.joined_seq)


def has_news(granted: ThreadGranted, floor_seq: int) -> bool:
    """Return whether the thread may hold events above the floor (9.1)."""
    return granted.last_seq is None or granted.last_seq > floor_seq
