"""BubbleTools: the table of tools, each call within its time, each failure a short text."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import trio

from actors.clean import clean_text
from actors.ports import Refused, Unavailable
from scuba import wire
from scuba.bubble import BubbleClient
from scuba.redaction import redact
from scuba.tools import artifacts, people, threads
from scuba.tools.port import Answer, Offer, Place
from scuba.tools.tool import Call, Mistake, Tool

logger = logging.getLogger(__name__)

CALL_S = 300.0
"""How long a call may take, all its tries included."""
WAITS_S = (0.5, 2.0, 5.0)
"""Between one try and the next, when the server cannot be reached or asks to wait."""
ANSWER_CHARACTERS = 40_000
"""A model's tool result that is longer is refused by the agent itself."""
REFUSAL_CHARACTERS = 500
CUT = "\n[shortened: the rest does not fit]"
AWAY = "The Bubble server cannot be reached at the moment. Nothing is known to have changed."
BROKEN = "The tool failed. Whoever runs this bot finds the cause in its log."

RunOf = Callable[[str], Awaitable[str | None]]


class BubbleTools:
    """Fills the port `Toolbox` for one bot; owns nothing. The client is its own, and stays open."""

    def __init__(
        self,
        client: BubbleClient,
        run_of: RunOf,
        extensions: Iterable[wire.Manifest] = (),
        *,
        call_s: float = CALL_S,
    ) -> None:
        """`run_of` returns the run that a thread has in hand; `extensions` is what `info` says."""
        self._client, self._run_of, self._call_s = client, run_of, call_s
        tools: list[Tool[Any]] = [*threads.TOOLS, *people.TOOLS]
        if wire.loads(wire.ARTIFACTS, extensions):
            tools += artifacts.TOOLS
        self._tools = {tool.offer.name: tool for tool in tools}

    @property
    def offers(self) -> Sequence[Offer]:
        """Every tool there is; those for artifacts only where the server's are ours exactly."""
        return tuple(tool.offer for tool in self._tools.values())

    async def call(self, name: str, arguments: Mapping[str, Any], place: Place) -> Answer:
        """Return what a call came to, within `call_s`; see the port."""
        ids = {"thread_id": place.thread_id, "tool_call_id": place.tool_call_id}
        began = trio.current_time()
        answer = Answer(f"The call did not come to its end within {self._call_s:g} s.", True)
        outcome = "too slow"
        with trio.move_on_after(self._call_s):
            answer, outcome = await self._answer(name, arguments, place)
        took_s = trio.current_time() - began
        level = logging.INFO if outcome == "done" else logging.WARNING
        logger.log(level, "tool %s: %s after %.1f s", name[:60], outcome, took_s, extra=ids)
        return answer

    async def _answer(
        self, name: str, arguments: Mapping[str, Any], place: Place
    ) -> tuple[Answer, str]:
        """Return the answer, and what the log says of it: never a word of anybody's."""
        try:
            tool = self._tools.get(name)
            if tool is None:
                return Answer(f"There is no tool {name[:60]!r}.", True), "unknown"
            call = Call(
                thread_id=place.thread_id,
                run_id=await self._run_of(place.thread_id),
                tool_call_id=place.tool_call_id,
            )
            text = await _persist(tool.prepare(self._client, call, arguments))
        except Mistake as mistake:
            return Answer(_safe(str(mistake)), True), "refused here"
        except Refused as refused:
            detail = f": {refused.detail}" if refused.detail else ""
            text = _safe(f"The server refuses ({refused.code}){detail}.")
            return Answer(text, True), f"refused: {refused.status} {refused.code[:60]!r}"
        except Unavailable as unavailable:
            return Answer(AWAY, True), f"no answer: {unavailable}"
        except Exception:  # a tool of ours must not end the session (6.2)
            logger.exception("tool %s crashed", name[:60])
            return Answer(BROKEN, True), "crashed"
        return Answer(_bounded(text)), "done"


async def _persist(run: Callable[[], Awaitable[str]]) -> str:
    """Return what a call says, tried again while it may pass. Raises as the last try."""
    for wait_s in WAITS_S:
        try:
            return await run()
        except Unavailable as unavailable:
            await trio.sleep(max(wait_s, unavailable.retry_after_s or 0.0))
    return await run()


def _safe(text: str) -> str:
    return redact(clean_text(text))[:REFUSAL_CHARACTERS]


def _bounded(text: str) -> str:
    text = clean_text(text)
    if len(text) <= ANSWER_CHARACTERS:
        return text
    return text[: ANSWER_CHARACTERS - len(CUT)] + CUT
