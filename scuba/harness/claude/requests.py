"""Requests: every control request of ours ends, with the CLI's reply or with the CLI."""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import trio

from scuba.harness.claude.frames import Gone, Reply

Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class _Open:
    """A request without its reply."""

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.over = trio.Event()


class Requests:
    """What we asked and the CLI has not answered yet."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[str, _Open] = {}

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the CLI's answer. Raises Gone when it refuses or goes; waits while it lives."""
        request_id = f"scuba-{uuid.uuid4()}"
        asked = self._open[request_id] = _Open()
        try:
            await self._send(
                {"type": "control_request", "request_id": request_id, "request": request}
            )
            await asked.over.wait()
        finally:
            del self._open[request_id]
        if asked.reply is None:
            raise Gone("the CLI ended before it answered")
        if asked.reply.subtype == "error":
            raise Gone(f"the CLI refused: {asked.reply.error}")
        answer = asked.reply.response
        return cast(dict[str, Any], answer) if isinstance(answer, dict) else {}

    def take(self, reply: Reply) -> bool:
        """Take a reply; False when it answers somebody else's request."""
        asked = self._open.get(reply.request_id)
        if asked is None:
            return False
        asked.reply = reply
        asked.over.set()
        return True

    def end(self) -> None:
        """The CLI has ended: no reply will come."""
        for asked in self._open.values():
            asked.over.set()
