"""Which tool calls of the runs in hand have no outcome yet. No I/O."""

import msgspec

from scuba.wire import Envelope, Struct

OUTCOMES = ("tool-output-available", "tool-output-error", "tool-output-denied")


class _Chunk(Struct, frozen=True, kw_only=True):
    type: str
    tool_call_id: str | None = None
    tool_name: str | None = None
    preliminary: bool = False


class _Part(Struct, frozen=True, kw_only=True):
    chunk: _Chunk


class Call(msgspec.Struct, frozen=True):
    """One call without an outcome."""

    run_id: str
    tool_name: str
    waits: bool = False
    """Somebody's decision was asked for."""


class OpenCalls:
    """Collects them from a run's events, in order."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def see(self, event: Envelope) -> None:
        """Take the next event. What cannot be read is none of ours (1.3)."""
        if event.type != "message_part" or event.run_id is None:
            return
        try:
            chunk = msgspec.json.decode(event.payload, type=_Part).chunk
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if chunk.tool_call_id is None:
            return
        known = self._calls.get(chunk.tool_call_id)
        if chunk.type in ("tool-input-start", "tool-input-available"):
            self._calls[chunk.tool_call_id] = Call(event.run_id, chunk.tool_name or "a tool")
        elif chunk.type == "tool-approval-request" and known is not None:
            self._calls[chunk.tool_call_id] = Call(known.run_id, known.tool_name, waits=True)
        elif chunk.type in OUTCOMES and not chunk.preliminary:
            self._calls.pop(chunk.tool_call_id, None)

    def get(self, tool_call_id: str) -> Call | None:
        """Return the call of that id, None when it has an outcome or never was."""
        return self._calls.get(tool_call_id)

    def waiting(self) -> list[str]:
        """Return the ids of the calls that wait for a decision."""
        return [name for name, call in self._calls.items() if call.waits]
