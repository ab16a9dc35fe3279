"""Mapper: what the CLI writes, in the words of `actors.harness`. No I/O; the caller brings time."""

from collections.abc import Iterable

from actors.harness import (
    AnySaid,
    PermissionAsked,
    PermissionWithdrawn,
    Told,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from scuba.harness.claude.blocks import Blocks
from scuba.harness.claude.failures import COMPLETED, INTERRUPTED, Outcome, failed, outcome_of
from scuba.harness.claude.frames import (
    Assistant,
    Block,
    ControlCancel,
    ControlRequest,
    Frame,
    Lifecycle,
    RateLimitEvent,
    Result,
    StreamEvent,
    System,
    User,
)
from scuba.harness.claude.notices import Notices
from scuba.harness.claude.usage import Meter
from scuba.harness.claude.values import output_of, value_of

SYNTHETIC = "<synthetic>"
"""The model named on messages that the CLI wrote itself."""
BROKE_OFF = Told(
    level="info", code="answer_broke_off", text="The model's answer broke off; it begins anew."
)
NO_ANSWER = "The agent ended without an answer. Send the message again."


class Turn:
    """The prompt in hand and what is known of its end."""

    def __init__(self, prompt_id: str, uuid: str) -> None:
        self.prompt_id, self.uuid = prompt_id, uuid
        self.interrupting = False
        self.said_error: str | None = None
        self.said_kind: object = None
        self.outcome: Outcome | None = None
        self.cancelled = False
        self.fallback: Outcome | None = None
        """How it ended if the CLI falls idle and has said nothing better."""


class Mapper:
    """Turns frames into what was said, in order. At most one turn is open.

    A turn has ended when its result came *and* the CLI is idle, so nothing of it is left over for
    the next one (field case 4.1).
    """

    def __init__(self, *, one_turn: bool = False) -> None:
        """`one_turn`: the session is closed after its first turn."""
        self._one_turn = one_turn
        self.session_id = ""
        self.skipped = 0
        """Frames of types and shapes that are not known here (field case 9.7)."""
        self.last_result: Result | None = None
        """Of the latest turn that had one."""
        self._turn: Turn | None = None
        self._idle = True
        self._blocks = Blocks()
        self._asked: dict[str, str] = {}
        self._denied: set[str] = set()
        self._expired: set[str] = set()
        self._notices = Notices()
        self._meter = Meter()

    @property
    def turn(self) -> Turn | None:
        """Return the open turn."""
        return self._turn

    @property
    def _interrupting(self) -> bool:
        return self._turn is not None and self._turn.interrupting

    def begin(self, prompt_id: str, uuid: str) -> None:
        """Open a turn; `uuid` is what the CLI calls its prompt."""
        self._turn = Turn(prompt_id, uuid)
        self._notices.begin()

    def deny(self, tool_call_id: str) -> None:
        """Remember that somebody said no to a call, so its result is a denial."""
        self._denied.add(tool_call_id)

    def expire(self, tool_call_id: str) -> None:
        """Remember that nobody answered: its result is an error, whatever the CLI calls it."""
        self._expired.add(tool_call_id)

    def map(self, frames: Iterable[Frame], now: float) -> list[AnySaid]:
        """Return what the frames say; adjacent deltas of one block become one."""
        said: list[AnySaid] = []
        blocks = self._blocks
        for frame in frames:
            if type(frame) is StreamEvent:
                if frame.parent_tool_use_id is None:
                    blocks.stream(frame.event, said)
                    if frame.abandoned_blocks is not None:
                        blocks.flush(said)
                        if not self._interrupting:
                            said.append(BROKE_OFF)
                continue
            blocks.flush(said)
            self._map_whole(frame, now, said)
        blocks.flush(said)
        return said

    def _map_whole(self, frame: Frame, now: float, said: list[AnySaid]) -> None:
        match frame:
            case Assistant():
                self._assistant(frame, said)
            case User():
                said += self._returned(frame)
            case ControlRequest():
                call = frame.tool_call_id
                self._asked[frame.request_id] = call
                said.append(
                    PermissionAsked(
                        tool_call_id=call,
                        tool_name=frame.request.tool_name,
                        input=value_of(frame.request.input),
                    )
                )
            case ControlCancel():
                if call_id := self._asked.pop(frame.request_id, None):
                    said.append(PermissionWithdrawn(call_id))
            case System():
                self._system(frame, now, said)
            case Lifecycle():
                self._lifecycle(frame)
                self._settle(said)
            case Result():
                self._result(frame)
                self._settle(said)
            case RateLimitEvent():
                said += self._notices.of_limit(frame.rate_limit_info)
            case _:
                self.skipped += 1

    # --- what the model says and does -----------------------------------------------------------

    def _assistant(self, frame: Assistant, said: list[AnySaid]) -> None:
        message = frame.message
        if message.model == SYNTHETIC or frame.error is not None:
            if self._turn is not None and frame.error is not None:
                self._turn.said_error = frame.error
                self._turn.said_kind = frame.api_error
            return
        inner = frame.parent_tool_use_id is not None
        if message.model and not inner:
            self._meter.model = message.model
        content = message.content
        for block in [Block("text", text=content)] if isinstance(content, str) else content:
            if block.type.endswith("tool_use"):
                said.append(
                    ToolCalled(
                        tool_call_id=block.id,
                        tool_name=block.name,
                        input=value_of(block.input),
                        inner=inner,
                    )
                )
            elif block.type.endswith("tool_result"):
                said.append(self._result_of(block, denied=False))
            elif not inner:
                self._blocks.whole(message.id, block, said)

    def _returned(self, frame: User) -> list[AnySaid]:
        if isinstance(frame.message.content, str):
            return []
        rejected = {
            meta.id
            for meta in frame.tool_result_meta or ()
            if meta.permission_decision and meta.permission_decision.decision == "reject"
        }
        rejected -= self._expired
        if self._interrupting:
            rejected.clear()  # the CLI answers what it asked by itself: nobody said no
        return [
            self._result_of(block, denied=block.tool_use_id in rejected | self._denied)
            for block in frame.message.content
            if block.type == "tool_result"
        ]

    def _result_of(self, block: Block, *, denied: bool) -> ToolReturned:
        self._denied.discard(block.tool_use_id)
        return ToolReturned(
            tool_call_id=block.tool_use_id,
            output=output_of(value_of(block.content)),
            is_error=bool(block.is_error),
            denied=denied,
        )

    # --- what becomes of the turn ---------------------------------------------------------------

    def _system(self, frame: System, now: float, said: list[AnySaid]) -> None:
        said += self._notices.of_system(frame, now)
        if frame.subtype == "session_state_changed":
            self._idle = frame.state == "idle"
            self._settle(said, last_word=True)
        elif frame.subtype == "init" and frame.session_id:
            self.session_id = frame.session_id

    def _lifecycle(self, frame: Lifecycle) -> None:
        turn = self._turn
        if turn is None or frame.command_uuid != turn.uuid:
            return
        match frame.state:
            case "cancelled":
                turn.cancelled = True
            case "started":
                turn.fallback = failed("agent_failed", NO_ANSWER)
            case "completed":
                turn.fallback = COMPLETED
            case _:
                pass

    def _result(self, frame: Result) -> None:
        turn = self._turn
        self._meter.heard(frame)
        if frame.session_id:
            self.session_id = frame.session_id
        if turn is None or not (frame.num_turns or frame.is_error):
            return
        if turn.uuid in (frame.user_message_uuid, *(frame.user_message_uuids or ())):
            self.last_result = frame
            turn.outcome = outcome_of(
                frame,
                interrupting=turn.interrupting,
                said_error=turn.said_error,
                said_kind=turn.said_kind,
                resets_at=self._notices.resets_at,
            )

    def _settle(self, said: list[AnySaid], *, last_word: bool = False) -> None:
        """End the turn if the CLI is idle and the outcome known. `last_word`: no more will come."""
        turn = self._turn
        if turn is None or not self._idle:
            return
        outcome = turn.outcome or (INTERRUPTED if turn.cancelled else None)
        if outcome is None and last_word:
            outcome = INTERRUPTED if turn.fallback and turn.interrupting else turn.fallback
        if outcome is not None:
            self._turn = None
            self._blocks.forget()
            self._asked.clear()
            self._denied.clear()
            self._expired.clear()
            if used := self._meter.take():
                said.append(used)
            said.append(
                TurnEnded(
                    prompt_id=turn.prompt_id,
                    status=outcome.status,
                    code=outcome.code,
                    text=outcome.text,
                    tainted=outcome.tainted,
                    # A process that is over its budget refuses all that follows.
                    closes=self._one_turn or outcome.code == "budget",
                )
            )
