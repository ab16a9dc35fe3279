"""Whose turn it is: that of our prompt, or one that the CLI began because a task reported."""

import uuid

from actors.harness import TurnEnded
from scuba.harness.claude.failures import COMPLETED, INTERRUPTED, Outcome, failed, outcome_of
from scuba.harness.claude.frames import Lifecycle, Result

NO_ANSWER = "The agent ended without an answer. Send the message again."


class Turn:
    """A turn in hand and what is known of its end. `uuid` is what the CLI calls its prompt."""

    def __init__(self, prompt_id: str, uuid_: str = "") -> None:
        self.prompt_id, self.uuid = prompt_id, uuid_
        self.begun = False
        """Whether the CLI works on it; before, what is said belongs to another one."""
        self.interrupting = False
        self.said_error: str | None = None
        self.said_kind: object = None
        self.outcome: Outcome | None = None
        self.cancelled = False
        self.fallback: Outcome | None = None
        """How it ended if the CLI falls idle and has said nothing better."""

    def followed(self, state: str) -> None:
        """Take in how far the CLI has come with its prompt."""
        match state:
            case "cancelled":
                self.cancelled = True
            case "started":
                self.begun = True
                self.fallback = failed("agent_failed", NO_ANSWER)
            case "completed":
                self.begun = True
                self.fallback = COMPLETED
            case _:
                pass

    def ended(self, outcome: Outcome) -> TurnEnded:
        """Return the last word about it."""
        return TurnEnded(
            prompt_id=self.prompt_id,
            status=outcome.status,
            code=outcome.code,
            text=outcome.text,
            tainted=outcome.tainted,
        )


class Turns:
    """At most one turn of a prompt, and beside it at most one that nobody asked for.

    A prompt's turn has ended when its result came *and* the CLI is idle, so nothing of it is left
    over for the next one (field case 4.1); while background tasks run, the CLI is not idle, and
    the result alone ends it.
    """

    def __init__(self) -> None:
        self.prompted: Turn | None = None
        self.woken: Turn | None = None
        self.idle = True
        self.last_result: Result | None = None
        """Of the latest turn that had one."""

    @property
    def current(self) -> Turn | None:
        """Return the turn to which what the agent says belongs."""
        return self.woken or self.prompted

    def named(self, prompt_id: str) -> Turn | None:
        """Return the turn of this id, if it is in hand."""
        turns = (turn for turn in (self.woken, self.prompted) if turn is not None)
        return next((turn for turn in turns if turn.prompt_id == prompt_id), None)

    def wake(self) -> Turn | None:
        """Return a new turn if what the agent says belongs to none in hand."""
        if self.woken is not None or (self.prompted is not None and self.prompted.begun):
            return None
        self.woken = Turn(f"woken-{uuid.uuid4().hex}")
        return self.woken

    def followed(self, frame: Lifecycle) -> None:
        """Take in how far the CLI has come with a prompt."""
        if self.prompted is not None and frame.command_uuid == self.prompted.uuid:
            self.prompted.followed(frame.state)

    def result(self, frame: Result, resets_at: float | None) -> TurnEnded | None:
        """Take in a result; return the end of a turn that nobody asked for, if it is that."""
        if not (frame.num_turns or frame.is_error):
            return None
        turn = self._turn_of(frame)
        if turn is None:
            return None
        self.last_result = frame
        turn.outcome = outcome_of(
            frame,
            interrupting=turn.interrupting,
            said_error=turn.said_error,
            said_kind=turn.said_kind,
            resets_at=resets_at,
        )
        if turn is not self.woken:
            return None
        self.woken = None
        return turn.ended(turn.outcome)

    def _turn_of(self, frame: Result) -> Turn | None:
        prompts = (frame.user_message_uuid, *(frame.user_message_uuids or ()))
        if self.prompted is not None and self.prompted.uuid in prompts:
            return self.prompted
        return self.woken if frame.is_of_a_task else None

    def settled(self, *, tasks: int, last_word: bool = False) -> list[TurnEnded]:
        """Return the ends of turns that are over now. `last_word`: no more will be said of them."""
        ends: list[TurnEnded] = []
        if self.woken is not None and self.idle and last_word:
            ends.append(self.woken.ended(INTERRUPTED if self.woken.interrupting else COMPLETED))
            self.woken = None
        turn = self.prompted
        if turn is not None and (outcome := self._outcome(turn, tasks, last_word)):
            self.prompted = None
            ends.append(turn.ended(outcome))
        return ends

    def _outcome(self, turn: Turn, tasks: int, last_word: bool) -> Outcome | None:
        outcome = turn.outcome or (INTERRUPTED if turn.cancelled else None)
        if not self.idle:
            return outcome if tasks else None
        if outcome is None and last_word:
            return INTERRUPTED if turn.fallback and turn.interrupting else turn.fallback
        return outcome
