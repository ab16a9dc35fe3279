"""What a log tells of before: who said what, and up to where the bot has answered."""

from collections.abc import Sequence

import msgspec

from actors.drain import InputDrain
from actors.events import Event, RunStarted, Trigger
from actors.thread_message import ThreadMessage


class Past(msgspec.Struct, frozen=True):
    """What is settled of a thread, as far as its events were read."""

    messages: tuple[ThreadMessage, ...] = ()
    """Of others, in the order in which they became final."""
    answered: tuple[int, ...] = ()
    """Up to where each run of ours answered, ascending."""
    told_seq: int = 0
    """Where the newest run of ours began that answers nothing, and only tells something."""

    @property
    def authors(self) -> set[str]:
        """Who said something."""
        return {message.principal_id for message in self.messages}


def past_of(events: Sequence[Event], own_principal_id: str, settled_seq: int) -> Past:
    """Return what these events, ascending, tell of what was settled up to `settled_seq`.

    They are a window: of each of its runs it has the beginning.
    """
    drain = InputDrain(own_principal_id, 0)
    answered: set[int] = set()
    told_seq = 0
    for event in events:
        if event.seq <= settled_seq:
            drain.observe(event)
        if isinstance(event.body, RunStarted) and event.principal_id == own_principal_id:
            trigger = event.body.trigger
            if trigger is None or trigger == Trigger():
                told_seq = event.seq
            elif trigger.through_seq is not None and trigger.through_seq <= settled_seq:
                answered.add(trigger.through_seq)
    for run_id in drain.needs():
        drain.fill(run_id, [event for event in events if event.run_id == run_id])
    taken = drain.take()
    messages = sorted(taken.messages if taken else (), key=lambda message: message.final_seq)
    return Past(tuple(messages), tuple(sorted(answered)), told_seq)
