"""Outbound translation: whatever a harness says, in whatever order, becomes a well-framed run.

Pure. The sender rules are those of 5.3; `run_started` is not made here.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, assert_never

from actors.clean import clean_text, fit, fit_text, pieces, plain
from actors.events import (
    AnyChunk,
    DataNotice,
    DataUsage,
    Draft,
    Notice,
    Opens,
    PartPayload,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RunFinishedPayload,
    RunStatus,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolInputAvailable,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
    Usage,
    part,
)
from actors.harness import (
    BlockEnded,
    PermissionAsked,
    PermissionWithdrawn,
    Spoken,
    TextSaid,
    ThoughtSaid,
    Told,
    ToolCalled,
    ToolReturned,
    Used,
)

LIMIT_BYTES = 248 * 1024
"""Of one payload as JSON: an event may have 256 KiB, its envelope takes some of them (12)."""
REASON_CHARS = 2_000
NAME_CHARS = 200

Kind = Literal["text", "reasoning"]


class _Framing(NamedTuple):
    start: type[TextStart | ReasoningStart]
    delta: type[TextDelta | ReasoningDelta]
    end: type[TextEnd | ReasoningEnd]


_FRAMING: dict[Kind, _Framing] = {
    "text": _Framing(TextStart, TextDelta, TextEnd),
    "reasoning": _Framing(ReasoningStart, ReasoningDelta, ReasoningEnd),
}
_WITHOUT_OUTCOME: dict[RunStatus, str] = {
    "completed": "The run ended without a result of this call.",
    "interrupted": "Interrupted before this call had a result.",
    "failed": "The run failed before this call had a result.",
}


class _Block:
    """The block in hand: its part is opened by its first character, not by its first word."""

    __slots__ = ("block_id", "kind", "part_id", "unsaid")

    def __init__(self, kind: Kind, block_id: str) -> None:
        self.kind: Kind = kind
        self.block_id = block_id
        self.part_id: str | None = None
        self.unsaid: list[str] = []


class Outbound:
    """The outgoing side of one run. After `finish` nothing more comes out.

    Drafts come back in the order in which they are to be appended, each small enough for one
    event. Text of one block that came in one call is one delta.
    """

    def __init__(self, run_id: str, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._run_id = run_id
        self._limit_bytes = limit_bytes
        self._drafts: list[Draft] = []
        self._block: _Block | None = None
        self._parts: dict[Kind, int] = {"text": 0, "reasoning": 0}
        self._calls: dict[str, bool] = {}  # shown calls: has it its outcome?
        self._asked: dict[str, None] = {}
        self._requested: set[str] = set()
        self._denied: set[str] = set()
        self._finished = False

    @property
    def asked(self) -> tuple[str, ...]:
        """Calls that were asked for, in order: no outcome, denial or withdrawal yet."""
        return tuple(self._asked)

    def translate(self, said: Sequence[Spoken]) -> list[Draft]:
        """Return what a batch adds to the run."""
        if self._finished:
            return []
        for item in said:
            match item:
                case TextSaid(block_id=block_id, text=text):
                    self._write("text", block_id, text)
                case ThoughtSaid(block_id=block_id, text=text):
                    self._write("reasoning", block_id, text)
                case BlockEnded(block_id=block_id):
                    if self._block is not None and self._block.block_id == block_id:
                        self._end_block()
                case ToolCalled():
                    self._show(item)
                case PermissionAsked():
                    self._show(item)
                    self._ask(item.tool_call_id)
                case PermissionWithdrawn(tool_call_id=call_id):
                    self._asked.pop(call_id, None)
                case ToolReturned():
                    self._returned(item)
                case Told(level=level, code=code, text=text):
                    self._tell(Notice(level, code, text))
                case Used():
                    self._say()
                    self._emit(DataUsage(data=_usage(item)))
                case _:
                    assert_never(item)
        self._say()
        return self._handed_over()

    def notice(self, notice: Notice) -> list[Draft]:
        """Return the notice as a `data-notice`; an open part stays open (5.3.6)."""
        if self._finished:
            return []
        self._tell(notice)
        return self._handed_over()

    def denied(self, tool_call_id: str) -> None:
        """Remember that somebody said no: the call's outcome will be `tool-output-denied`."""
        self._denied.add(tool_call_id)
        self._asked.pop(tool_call_id, None)

    def answered_elsewhere(self, tool_call_id: str, output: object, is_error: bool) -> list[Draft]:
        """Return the outcome that somebody gave in the tool's place; a later one is dropped."""
        if self._finished:
            return []
        self._settle(tool_call_id, output, is_error=is_error)
        return self._handed_over()

    def finish(
        self, status: RunStatus, reason: str | None = None, through_seq: int | None = None
    ) -> list[Draft]:
        """Return the end of the run: parts ended, calls settled, `run_finished`; once only."""
        if self._finished:
            return []
        self._finished = True
        self._end_block()
        self._settle_rest(status)
        reason = clean_text(reason)[:REASON_CHARS] if reason else None
        payload = RunFinishedPayload(status=status, reason=reason, through_seq=through_seq)
        self._drafts.append(Draft("run_finished", self._run_id, payload))
        self._asked.clear()
        return self._handed_over()

    def _write(self, kind: Kind, block_id: str, text: str) -> None:
        block = self._block
        if block is None or block.block_id != block_id or block.kind != kind:
            self._end_block()
            block = self._block = _Block(kind, block_id)
        block.unsaid.append(text)

    def _say(self, *, last: bool = False) -> None:
        """Emit what the block in hand has gathered."""
        block = self._block
        if block is None or not block.unsaid:
            return
        text = "".join(block.unsaid)
        block.unsaid.clear()
        if not last and "\ud800" <= text[-1:] <= "\udbff":
            block.unsaid.append(text[-1])  # half a character: the other half may follow
            text = text[:-1]
        if not (text := clean_text(text)):
            return
        framing = _FRAMING[block.kind]
        if block.part_id is None:
            self._parts[block.kind] += 1
            block.part_id = f"{block.kind[0]}{self._parts[block.kind]}"
            self._emit(framing.start(id=block.part_id))
        for piece in pieces(text, self._limit_bytes - NAME_CHARS):
            self._emit(framing.delta(id=block.part_id, delta=piece))

    def _end_block(self) -> None:
        self._say(last=True)
        if self._block is not None and self._block.part_id is not None:
            self._emit(_FRAMING[self._block.kind].end(id=self._block.part_id))
        self._block = None

    def _show(self, call: ToolCalled | PermissionAsked) -> None:
        call_id = call.tool_call_id
        if call_id in self._calls:
            return
        self._end_block()
        self._calls[call_id] = False
        shown = fit({} if call.input is None else call.input, self._room_bytes)
        name = clean_text(call.tool_name)[:NAME_CHARS]
        chunk = ToolInputAvailable(tool_call_id=call_id, tool_name=name, input=shown)
        opens = None
        if call.delegates is not None:
            opens = Opens(call_id, clean_text(call.delegates)[:NAME_CHARS])
        self._drafts.append(Draft("message_part", self._run_id, PartPayload(chunk), opens))

    def _ask(self, call_id: str) -> None:
        if self._calls[call_id] or call_id in self._denied:
            return
        self._asked[call_id] = None
        if call_id in self._requested:
            return  # people see it already
        self._requested.add(call_id)
        self._end_block()
        self._emit(ToolApprovalRequest(approval_id=call_id, tool_call_id=call_id))

    def _returned(self, said: ToolReturned) -> None:
        if said.denied:
            self._denied.add(said.tool_call_id)
        self._settle(said.tool_call_id, said.output, is_error=said.is_error)

    def _settle(self, call_id: str, output: object, *, is_error: bool) -> None:
        if self._calls.get(call_id, True):
            return  # settled before, or never shown
        self._end_block()
        self._calls[call_id] = True
        self._asked.pop(call_id, None)
        if call_id in self._denied:
            self._emit(ToolOutputDenied(tool_call_id=call_id))
        elif is_error:
            text = fit_text(plain(output), self._room_bytes) or "The call failed."
            self._emit(ToolOutputError(tool_call_id=call_id, error_text=text))
        else:
            shown = fit("" if output is None else output, self._room_bytes)
            self._emit(ToolOutputAvailable(tool_call_id=call_id, output=shown))

    def _settle_rest(self, status: RunStatus) -> None:
        for call_id in [call_id for call_id, done in self._calls.items() if not done]:
            if call_id in self._denied:
                self._emit(ToolOutputDenied(tool_call_id=call_id))
            else:
                text = _WITHOUT_OUTCOME[status]
                self._emit(ToolOutputError(tool_call_id=call_id, error_text=text))

    def _tell(self, notice: Notice) -> None:
        self._say()
        text = fit_text(notice.text, self._room_bytes)
        self._emit(DataNotice(data=Notice(notice.level, notice.code, text)))

    @property
    def _room_bytes(self) -> int:
        return self._limit_bytes - 4 * NAME_CHARS - 512  # a name and a call id, at their longest

    def _emit(self, chunk: AnyChunk) -> None:
        self._drafts.append(part(self._run_id, chunk))

    def _handed_over(self) -> list[Draft]:
        drafts, self._drafts = self._drafts, []
        return drafts


def _usage(used: Used) -> Usage:
    return Usage(
        model=used.model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost_usd=round(used.cost_usd, 6),
        duration_ms=round(used.duration_s * 1000),
    )
