"""Permissions: each question of the CLI waits for one decision, by the id of its tool call."""

import trio

from actors.harness import Decision
from scuba.harness.claude.frames import ControlCancel, ControlRequest


class Waiting:
    """One question that is open."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.decision: Decision | None = None
        self.decided = trio.Event()


class Permissions:
    """The open questions of one session. The reader opens and closes them, in stream order."""

    def __init__(self) -> None:
        self._open: dict[str, Waiting] = {}

    def watch(self, frame: ControlRequest | ControlCancel) -> None:
        """Take a question, or its withdrawal, before anybody is asked."""
        if isinstance(frame, ControlRequest):
            self._open[frame.tool_call_id] = Waiting(frame.request_id)
            return
        for call_id, waiting in list(self._open.items()):
            if waiting.request_id == frame.request_id:
                del self._open[call_id]

    def decide(self, tool_call_id: str, decision: Decision) -> bool:
        """Answer a question; False (and no effect) when it is not open or was answered."""
        waiting = self._open.get(tool_call_id)
        if waiting is None or waiting.decision is not None:
            return False
        waiting.decision = decision
        waiting.decided.set()
        return True

    async def decision(self, tool_call_id: str) -> Decision:
        """Return the decision for a call, once there is one; cancelled when it is withdrawn."""
        waiting = self._open.get(tool_call_id)
        if waiting is None:
            await trio.sleep_forever()  # withdrawn already: the SDK is about to cancel this
        assert waiting is not None
        await waiting.decided.wait()
        self._open.pop(tool_call_id, None)
        assert waiting.decision is not None
        return waiting.decision
