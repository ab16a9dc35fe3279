"""Mapper: what the CLI writes, in the words of `actors.harness`. No I/O; the caller brings time."""

from collections.abc import Iterable, Sequence

import msgspec

from actors.harness import (
    AnySaid,
    AsideSaid,
    PermissionAsked,
    PermissionWithdrawn,
    Spoken,
    Told,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    Woke,
)
from scuba.harness.claude.blocks import Blocks
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
from scuba.harness.claude.questions import QUESTION
from scuba.harness.claude.tasks import Tasks, delegated
from scuba.harness.claude.turns import Turn, Turns
from scuba.harness.claude.usage import Meter
from scuba.harness.claude.values import output_of, value_of

SYNTHETIC = "<synthetic>"
"""The model named on messages that the CLI wrote itself."""
BROKE_OFF = Told(
    level="info", code="answer_broke_off", text="The model's answer broke off; it begins anew."
)


class Mapper:
    """Turns frames into what was said, in order; whose turn it is, `Turns` tells."""

    def __init__(self, *, one_turn: bool = False) -> None:
        """`one_turn`: the session is closed after its first turn."""
        self._one_turn = one_turn
        self.session_id = ""
        self.skipped = 0
        """Frames of types and shapes that are not known here (field case 9.7)."""
        self.turns = Turns()
        self.tasks = Tasks()
        self._blocks = Blocks()
        self._asked: dict[str, tuple[str | None, str]] = {}
        self._denied: set[str] = set()
        self._expired: set[str] = set()
        self._notices = Notices()
        self._meter = Meter()

    @property
    def _interrupting(self) -> bool:
        turn = self.turns.current
        return turn is not None and turn.interrupting

    def begin(self, prompt_id: str, uuid: str) -> None:
        """Open a turn; `uuid` is what the CLI calls its prompt."""
        self.turns.prompted = Turn(prompt_id, uuid)
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
                    if self.tasks.reported is not None:
                        self._wake(said)
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
                self._returned(frame, said)
            case ControlRequest():
                self._ask(frame, said)
            case ControlCancel():
                asked = self._asked.pop(frame.request_id, None)
                if asked is not None:
                    self._say(asked[0], [PermissionWithdrawn(asked[1])], said)
            case System():
                self._system(frame, now, said)
            case Lifecycle():
                self.turns.followed(frame)
                self._settle(said)
            case Result():
                self._result(frame, said)
                self._settle(said)
            case RateLimitEvent():
                said += self._notices.of_limit(frame.rate_limit_info)
            case _:
                self.skipped += 1

    # --- what the agents say and do -------------------------------------------------------------

    def _say(self, parent: str | None, words: Sequence[Spoken], said: list[AnySaid]) -> None:
        """Say what the main agent said, or the sub-agent that the call `parent` began."""
        if parent is not None:
            said += [AsideSaid(parent, word) for word in words]
        elif words:
            self._wake(said)
            said += words

    def _wake(self, said: list[AnySaid]) -> None:
        """Open a turn if the agent answers a task's report, and nobody's prompt."""
        reported = self.tasks.reported
        if reported is not None and (turn := self.turns.wake()) is not None:
            said.append(Woke(turn.prompt_id, reported))
            self.tasks.reported = None

    def _assistant(self, frame: Assistant, said: list[AnySaid]) -> None:
        message, parent = frame.message, frame.parent_tool_use_id
        if message.model == SYNTHETIC or frame.error is not None:
            turn = self.turns.current
            if turn is not None and frame.error is not None and parent is None:
                turn.said_error, turn.said_kind = frame.error, frame.api_error
            return
        if message.model and parent is None:
            self._meter.model = message.model
        words: list[Spoken] = []
        content = message.content
        blocks = self._blocks if parent is None else self.tasks.blocks(parent)
        for block in [Block("text", text=content)] if isinstance(content, str) else content:
            if block.type.endswith("tool_use"):
                words.append(self._called(block))
            elif block.type.endswith("tool_result"):
                words.append(self._result_of(block, denied=False))
            else:
                blocks.whole(message.id, block, words)
        self._say(parent, words, said)

    def _called(self, block: Block) -> ToolCalled:
        input_ = value_of(block.input)
        delegates = delegated(block.name, input_)
        if delegates is not None:
            self.tasks.began(block.id)
        return ToolCalled(
            tool_call_id=block.id, tool_name=block.name, input=input_, delegates=delegates
        )

    def _ask(self, frame: ControlRequest, said: list[AnySaid]) -> None:
        ask, call_id = frame.request, frame.tool_call_id
        parent, input_ = self.tasks.call_of(ask.agent_id), value_of(ask.input)
        self._asked[frame.request_id] = parent, call_id
        asked = PermissionAsked(
            tool_call_id=call_id,
            tool_name=ask.tool_name,
            input=input_,
            delegates=delegated(ask.tool_name, input_),
            is_question=ask.tool_name == QUESTION,
        )
        self._say(parent, [asked], said)

    def _returned(self, frame: User, said: list[AnySaid]) -> None:
        if isinstance(frame.message.content, str):
            return
        rejected = {
            meta.id
            for meta in frame.tool_result_meta or ()
            if meta.permission_decision and meta.permission_decision.decision == "reject"
        }
        rejected -= self._expired
        if self._interrupting:
            rejected.clear()  # the CLI answers what it asked by itself: nobody said no
        for block in frame.message.content:
            if block.type == "tool_result":
                denied = block.tool_use_id in rejected | self._denied
                result = self._result_of(block, denied=denied)
                ended = self.tasks.returned(block.tool_use_id, is_error=result.is_error)
                _add(ended, said)
                self._say(frame.parent_tool_use_id, [result], said)

    def _result_of(self, block: Block, *, denied: bool) -> ToolReturned:
        self._denied.discard(block.tool_use_id)
        return ToolReturned(
            tool_call_id=block.tool_use_id,
            output=output_of(value_of(block.content)),
            is_error=bool(block.is_error),
            denied=denied,
        )

    # --- what becomes of turns and tasks --------------------------------------------------------

    def _system(self, frame: System, now: float, said: list[AnySaid]) -> None:
        said += self._notices.of_system(frame, now)
        match frame.subtype:
            case "session_state_changed":
                self.turns.idle = frame.state == "idle"
                self._settle(said, last_word=True)
            case "init" if frame.session_id:
                self.session_id = frame.session_id
            case "task_started":
                _add(self.tasks.started(frame), said)
            case "task_notification":
                _add(self.tasks.notified(frame), said)
            case "background_tasks_changed":
                _add(self.tasks.changed(frame), said)
            case _:
                pass

    def _result(self, frame: Result, said: list[AnySaid]) -> None:
        self._meter.heard(frame)
        if frame.session_id:
            self.session_id = frame.session_id
        if (ended := self.turns.result(frame, self._notices.resets_at)) is not None:
            self._blocks.forget()
            self._end([ended], said)

    def _settle(self, said: list[AnySaid], *, last_word: bool = False) -> None:
        """End the turns that are over. `last_word`: no more will be said of them."""
        ends = self.turns.settled(tasks=self.tasks.running, last_word=last_word)
        if not ends:
            return
        self._blocks.forget()
        self._end(ends, said)
        if self.turns.idle:
            self._asked.clear()
            self._denied.clear()
            self._expired.clear()

    def _end(self, ends: Sequence[TurnEnded], said: list[AnySaid]) -> None:
        """Say the ends of turns, after what was used, and whether the session ends with them.

        A process that is over its budget refuses all that follows; one that is for one turn is
        kept for the background tasks that it left.
        """
        _add(self._meter.take(), said)
        for ended in ends:
            closes = ended.code == "budget" or (self._one_turn and not self.tasks.running)
            is_last = closes and self.turns.current is None
            said.append(msgspec.structs.replace(ended, closes=is_last) if is_last else ended)


def _add(word: AnySaid | None, said: list[AnySaid]) -> None:
    if word is not None:
        said.append(word)
