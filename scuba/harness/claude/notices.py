"""What people should know while a turn goes on: the model is tried again, a limit comes near, …

No I/O; the caller brings time. Each thing is said once, or now and then.
"""

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal, cast

from actors.harness import Told
from scuba.harness.claude.frames import RateLimit, System

RETRY_NOTICE_S = 30.0
"""The shortest time between two notices that the model is being tried again."""
RETRY_CAUSES = {
    401: "refuses the login",
    408: "did not answer in time",
    429: "is limiting requests",
    500: "failed",
    529: "is overloaded",
}
LIMITS = {
    "five_hour": "5-hour",
    "seven_day": "weekly",
    "seven_day_opus": "weekly Opus",
    "seven_day_sonnet": "weekly Sonnet",
}
COMPACTING = Told(
    level="info",
    code="compacting",
    text="The conversation has grown long; the agent sums it up before it goes on.",
)
COMPACT_FAILED = Told(
    level="warning",
    code="compact_failed",
    text="The conversation could not be summed up. If it no longer fits, start a new thread.",
)


class Notices:
    """Turns what the CLI says about itself into notices, and remembers what was said."""

    def __init__(self) -> None:
        self.resets_at: float | None = None
        """When the account's limit is lifted, if it is reached; seconds since 1970."""
        self._retry_at: float | None = None
        self._near: float | None = None
        self._compaction: Literal["none", "told", "failed"] = "none"
        self._missing: set[str] = set()

    def begin(self) -> None:
        """A turn begins: its first retry is told at once."""
        self._retry_at = None

    def of_system(self, frame: System, now: float) -> Iterator[Told]:
        """Yield what a frame of the CLI about itself is worth telling."""
        match frame.subtype:
            case "api_retry" if self._retry_at is None or now - self._retry_at >= RETRY_NOTICE_S:
                self._retry_at = now
                yield _retrying(frame)
            case "status" if frame.status == "compacting" and self._compaction == "none":
                self._compaction = "told"
                yield COMPACTING
            case "status" if frame.compact_result == "failed" and self._compaction == "told":
                self._compaction = "failed"  # it will be tried at each turn: that is not told
                yield COMPACT_FAILED
            case "compact_boundary":
                self._compaction = "none"
                yield _compacted(frame)
            case "init":
                yield from self._not_there(frame)
            case _:
                pass

    def of_limit(self, limit: RateLimit) -> Iterator[Told]:
        """Yield that the account comes near its limit, once for each time that it is lifted."""
        self.resets_at = limit.resets_at if limit.status == "rejected" else None
        if limit.status == "allowed_warning" and self._near != limit.resets_at:
            self._near = limit.resets_at
            kind = LIMITS.get(limit.kind, "usage")
            until = f"; it is lifted {when}" if (when := moment(limit.resets_at)) else ""
            text = f"The account comes near its {kind} limit{until}."
            yield Told(level="info", code="near_limit", text=text)

    def _not_there(self, frame: System) -> Iterator[Told]:
        """Yield which MCP servers and plugins that were asked for are not there, each once."""
        for server in _objects(frame.mcp_servers):
            name = server.get("name")
            if server.get("status") == "failed" and name not in self._missing:
                self._missing.add(str(name))
                text = f"The MCP server {name} cannot be used; the agent works without its tools."
                yield Told(level="warning", code="mcp_failed", text=text)
        for number, _ in enumerate(_objects(frame.plugin_errors)):
            if (name := f"plugin {number}") not in self._missing:
                self._missing.add(name)
                text = "A plugin could not be loaded; the agent works without it."
                yield Told(level="warning", code="plugin_failed", text=text)


def moment(at: float | None) -> str | None:
    """Return a moment (seconds since 1970) for people; None when it is unknown or impossible."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        if at is not None:
            return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
    return None


def _retrying(frame: System) -> Told:
    status = frame.error_status
    cause = RETRY_CAUSES.get(status if isinstance(status, int) else 0, "could not be reached")
    text = f"The model {cause}; trying again"
    if isinstance(frame.retry_delay_ms, int | float):
        text += f" in {max(1, round(frame.retry_delay_ms / 1000))} s"
    if isinstance(frame.attempt, int) and isinstance(frame.max_retries, int):
        text += f" (attempt {frame.attempt} of {frame.max_retries})"
    return Told(level="warning", code="retrying", text=f"{text}.")


def _compacted(frame: System) -> Told:
    sizes = ""
    match frame.compact_metadata:
        case {"pre_tokens": int(before), "post_tokens": int(after)}:
            sizes = f": {before:,} tokens became {after:,}"
        case _:
            pass
    text = (
        f"The agent summed up the conversation so far{sizes}. It no longer knows every word of it."
    )
    return Told(level="info", code="compacted", text=text)


def _objects(value: object) -> list[dict[str, object]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, object]", item) for item in items if isinstance(item, dict)]
