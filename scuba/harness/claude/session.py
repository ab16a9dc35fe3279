"""ClaudeSession: one live conversation with Claude Code, as the port `HarnessSession` has it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
import trio

from actors.harness import AnySaid, Attachment, Decision, TurnEnded
from actors.ports import SessionFailed
from scuba.harness.claude.content import content
from scuba.harness.claude.failures import TEXTS, hinted
from scuba.harness.claude.frames import Exited, Frame, Gone, Lifecycle, Result
from scuba.harness.claude.mapping import Mapper
from scuba.harness.claude.permissions import Permissions
from scuba.harness.claude.queue import FrameQueue
from scuba.harness.claude.transcript import recorded_as
from scuba.harness.claude.turns import Turn

logger = logging.getLogger(__name__)

QUEUED_S = 0.01
"""How long a prompt that the CLI had only queued is given before it is stopped again."""


class Wire(Protocol):
    """The way to the CLI. Both raise Gone."""

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Write one frame, whole."""
        ...

    async def request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the CLI's answer to a control request."""
        ...


class ClaudeSession:
    """Reads frames and writes prompts. The process belongs to the connection, not to it."""

    def __init__(
        self,
        wire: Wire,
        frames: FrameQueue,
        permissions: Permissions,
        session_id: str,
        *,
        resumed: bool = False,
        one_turn: bool = False,
    ) -> None:
        """`one_turn`: it is closed after its first turn."""
        self._wire, self._frames, self._permissions = wire, frames, permissions
        self._mapper = Mapper(one_turn=one_turn)
        self._mapper.session_id = session_id
        self._expected = session_id if resumed else None
        """By which the CLI must call the conversation, until the first turn is over."""
        self._ended: SessionFailed | None = None
        self._stop_early: str | None = None

    @property
    def session_id(self) -> str:
        """By which the CLI resumes this conversation."""
        return self._mapper.session_id

    @property
    def busy(self) -> bool:
        """Return whether a turn is open, or something goes on beside it."""
        return self._mapper.turns.current is not None or self._mapper.tasks.running > 0

    async def receive(self) -> Sequence[AnySaid]:
        """Return all that waits, at least one item, in order.

        Raises SessionFailed when the CLI has ended, after everything it said was returned; also
        when it came back with another conversation than the one to resume: of that, nothing is.
        """
        while self._ended is None:
            frames = await self._frames.get()
            last = frames[-1]
            if isinstance(last, Exited):
                self._ended = _death(last)
            said = self._map(frames)
            if self._expected not in (None, self._mapper.session_id):
                self._ended = _another(self._expected, self._mapper.session_id)
            elif said:
                self._expected = None if self._mapper.turns.prompted is None else self._expected
                return said
        raise self._ended

    def _map(self, frames: Sequence[Frame]) -> Sequence[AnySaid]:
        """Map, and tell the operator what people need not know; never a word of anybody."""
        skipped = self._mapper.skipped
        said = self._mapper.map(frames, trio.current_time())
        if self._mapper.skipped > skipped:
            logger.debug("skipped %d frames of unknown kinds", self._mapper.skipped - skipped)
        if said and isinstance(ended := said[-1], TurnEnded) and ended.status == "failed":
            result = self._mapper.turns.last_result or Result()
            logger.warning(
                "turn failed: %s (result %s, reason %s, API status %s)",
                ended.code,
                result.subtype,
                result.terminal_reason,
                result.api_error_status,
            )
        return said

    async def prompt(
        self, prompt_id: str, text: str, attachments: Sequence[Attachment] = ()
    ) -> None:
        """Begin a turn. Raises SessionFailed when the CLI does not take it in time.

        An id that the session's transcript knows already is dropped by the CLI, unanswered.
        """
        known_as = recorded_as(prompt_id)
        self._mapper.begin(prompt_id, known_as)
        if self._stop_early == prompt_id:
            self._stop_early = None
            self._withdraw(known_as)
            return
        try:
            await self._wire.send(prompt_frame(known_as, text, attachments))
        except Gone as error:
            failure = "The agent does not take the message. Send it again."
            raise SessionFailed("agent_deaf", failure, str(error)) from error

    def decide(self, tool_call_id: str, decision: Decision) -> bool:
        """Answer a permission; False (and no effect) when it is not waiting."""
        if not self._permissions.decide(tool_call_id, decision):
            return False
        if decision.expired:
            self._mapper.expire(tool_call_id)
        elif not decision.allowed and decision.supplied is None:
            self._mapper.deny(tool_call_id)
        return True

    async def interrupt(self, prompt_id: str) -> None:
        """Ask for the end of the turn; return when it is acknowledged. May wait for ever.

        Of a prompt not given yet it is remembered (4.2); of any other it changes nothing (4.7).
        """
        turn = self._mapper.turns.named(prompt_id)
        if turn is None:
            self._stop_early = prompt_id
            return
        turn.interrupting = True
        try:
            await self._stop(turn)
        except Gone as error:
            logger.info("interrupt not delivered: %s", error)  # `receive` tells of the end

    async def stop_aside(self, tool_call_id: str) -> None:
        """Stop one sub-agent; no effect when it is over."""
        task_id = self._mapper.tasks.task_of(tool_call_id)
        if task_id is not None:
            try:
                await self._wire.request({"subtype": "stop_task", "task_id": task_id})
            except Gone as error:
                logger.info("sub-agent not stopped: %s", error)  # `receive` tells of the end

    async def _stop(self, turn: Turn) -> None:
        """Interrupt until the CLI no longer has the prompt queued.

        Just after a prompt was written there is a moment in which an interrupt stops nothing.
        """
        while turn.uuid in await self._still_queued():
            cancel = {"subtype": "cancel_async_message", "message_uuid": turn.uuid}
            if (await self._wire.request(cancel)).get("cancelled") is True:
                self._withdraw(turn.uuid)
                return
            await trio.sleep(QUEUED_S)

    async def _still_queued(self) -> Sequence[str]:
        receipt = await self._wire.request({"subtype": "interrupt"})
        queued = receipt.get("still_queued")
        return cast(list[str], queued) if isinstance(queued, list) else ()

    def _withdraw(self, known_as: str) -> None:
        """Say, in order with everything else, that the CLI will not work on a prompt."""
        frame = Lifecycle(command_uuid=known_as, state="cancelled")
        self._frames.put(frame, msgspec.json.encode(frame))


def prompt_frame(
    known_as: str, text: str, attachments: Sequence[Attachment] = ()
) -> dict[str, Any]:
    """Return a prompt as the CLI takes it: verbatim (no slash command, no @path is expanded)."""
    return {
        "type": "user",
        "message": {"role": "user", "content": content(text, attachments)},
        "parent_tool_use_id": None,
        "uuid": known_as,
        "session_id": "default",
        "client_composed": True,
        "origin": {"kind": "human"},
    }


def _another(asked_for: str | None, came: str) -> SessionFailed:
    text = "The agent did not take up the earlier conversation. Send the message again."
    detail = f"resumed {asked_for}, and the CLI says {came}"
    return SessionFailed("session_lost", text, detail, lost_session=True)


def _death(last: Exited) -> SessionFailed:
    """Return what the end of the CLI means: class, words for people, detail for the operator."""
    told = "\n".join([last.error, *last.stderr])
    detail = f"exit code {last.returncode}: {told}"
    if last.code:
        return SessionFailed(last.code, TEXTS[last.code], detail)
    if last.asked:
        return SessionFailed("closed", "The agent was closed.", detail)
    if code := hinted(told):
        return SessionFailed(code, TEXTS[code], detail)
    if last.returncode is None:
        text = "The agent's output could not be read any further. Send the message again."
        return SessionFailed("agent_broken", text, detail)
    how = (
        f"was killed by signal {-last.returncode}"
        if last.returncode < 0
        else f"ended by itself (exit code {last.returncode})"
    )
    return SessionFailed("agent_died", f"The agent {how}. Send the message again.", detail)
