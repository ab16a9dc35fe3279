"""What any agent harness says, in words that belong to none of them.

A harness (Claude Code first) maps its own frames to these; `actors.outbound` turns them into a
well-framed run. Within one session they come in stream order.
"""

from typing import Any, Literal

import msgspec


class Said(msgspec.Struct, frozen=True, tag=True):
    """One thing a harness session said about the turn in hand."""


class TextSaid(Said, frozen=True):
    """More text of a block. A new `block_id` means a new part."""

    block_id: str
    text: str


class ThoughtSaid(Said, frozen=True):
    """More thinking of a block."""

    block_id: str
    text: str


class BlockEnded(Said, frozen=True):
    """The block is complete. A block may also end silently, when something else follows."""

    block_id: str


class ToolCalled(Said, frozen=True, kw_only=True):
    """The model calls a tool. `delegates`: it hands a task to a sub-agent, and this is its name."""

    tool_call_id: str
    tool_name: str
    input: Any
    delegates: str | None = None


class ToolReturned(Said, frozen=True, kw_only=True):
    """A call's result. `denied`: it never ran because somebody said no."""

    tool_call_id: str
    output: Any
    is_error: bool = False
    denied: bool = False


class PermissionAsked(Said, frozen=True, kw_only=True):
    """The harness waits for a decision. May come before the `ToolCalled` of the same id."""

    tool_call_id: str
    tool_name: str
    input: Any
    delegates: str | None = None
    is_question: bool = False
    """It wants an answer of its own: a yes to another one is none."""


class PermissionWithdrawn(Said, frozen=True):
    """The harness no longer waits for this decision (it was interrupted)."""

    tool_call_id: str


class Told(Said, frozen=True, kw_only=True):
    """Something a person should know that is not the model's text; becomes a notice."""

    level: Literal["info", "warning", "error"]
    code: str
    text: str


class Used(Said, frozen=True, kw_only=True):
    """What the turn that ends next has used, as the harness counts it. Said before its end."""

    model: str | None
    """That said the last words."""
    input_tokens: int = 0
    """Neither read from a cache nor written to it."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    """At the prices that the harness knows; an account may pay others."""
    duration_s: float = 0.0


Spoken = (
    TextSaid
    | ThoughtSaid
    | BlockEnded
    | ToolCalled
    | ToolReturned
    | PermissionAsked
    | PermissionWithdrawn
    | Told
    | Used
)
"""What an agent says while it works, the main one or a sub-agent."""


class AsideBegan(Said, frozen=True):
    """The sub-agent that the call began works; not always said."""

    tool_call_id: str


class AsideSaid(Said, frozen=True):
    """What the sub-agent said that was called by `tool_call_id`, itself perhaps of a sub-agent."""

    tool_call_id: str
    said: Spoken


class AsideEnded(Said, frozen=True):
    """That sub-agent is done; what may still come of it is void. Said once, or not at all."""

    tool_call_id: str
    status: Literal["completed", "interrupted", "failed"]


class TasksRunning(Said, frozen=True):
    """So many background tasks run now, sub-agents and others; they may outlive the turn."""

    count: int


class Woke(Said, frozen=True):
    """The agent works without a prompt, because a background task reported.

    What is said from here on belongs to the turn `prompt_id`, until its `TurnEnded`. A prompt that
    was given meanwhile waits that long.
    """

    prompt_id: str
    task_id: str | None = None


class TurnEnded(Said, frozen=True, kw_only=True):
    """The last word about the turn that `prompt_id` began. Nothing of that turn follows."""

    prompt_id: str
    status: Literal["completed", "interrupted", "failed"]
    code: str | None = None
    """A stable class of failure, for notices and logs (`not_logged_in`, `rate_limited`, …)."""
    text: str | None = None
    """For people: cause and next step, without paths or secrets."""
    tainted: bool = False
    """It failed, and what was said in this conversation before may be why: another may do better.
    Never for what would fail anywhere: no login, a limit, an overload, a budget."""
    closes: bool = False
    """The session takes no further turn: the next one resumes it, once it was closed."""


AnySaid = Spoken | AsideBegan | AsideSaid | AsideEnded | TasksRunning | Woke | TurnEnded


MediaType = Literal[
    "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"
]
"""What a harness may be given."""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes with a prompt. The model sees it after `label`, before the prompt's text."""

    label: str
    """Whose it is, and what it is called."""
    name: str
    media_type: MediaType
    data: bytes
    """The file as it is; text in UTF-8."""


class Supplied(msgspec.Struct, frozen=True):
    """The result of a call that somebody gave in the tool's place."""

    output: Any
    is_error: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one `PermissionAsked`."""

    allowed: bool
    message: str = ""
    """To the model, when denied; never empty on the wire to the harness."""
    updated_input: dict[str, Any] | None = None
    for_run: bool = False
    """Set on a permission: further calls of the same tool in this run need no other."""
    standing: str | None = None
    """Who gave the permission for the run by which this call is allowed without being asked."""
    expired: bool = False
    """Set on a denial: nobody answered in time, and nobody said no."""
    supplied: Supplied | None = None
    """Set on a denial: the call does not run here, and this is its outcome on the thread."""
