"""The sections of a bot's configuration, and the whole of it. What they say, people read."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from actors.backlog import OnFirstJoin, OnResume
from scuba.secret import Secret
from scuba.settings.base import Level, NonEmpty, PrincipalId, Section, TokenRef, TokenSource, Usd
from scuba.settings.claude import Claude, PermissionMode


class Bubble(Section, frozen=True, kw_only=True):
    """The server, and who the bot is there."""

    url: NonEmpty
    """The server: `https://host[:port][/prefix]`. Plain `http` only to this machine, unless
    `allowInsecure`."""
    principal_id: PrincipalId
    """Who the bot is. If the token belongs to another, scuba does not start (exit code 77)."""
    token: TokenSource
    """The bot's token: the text itself, `{"env": "NAME"}` or `{"file": "PATH"}`. White space around
    it is dropped."""
    allow_insecure: bool = False
    """Allow plain `http` to another machine: the token then travels in the clear."""

    def __repr__(self) -> str:
        """Return what may be shown: never the token."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Bubble({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what may be shown, for rich."""
        token = self.token if isinstance(self.token, TokenRef) else Secret(self.token)
        return [
            ("url", self.url),
            ("principal_id", self.principal_id),
            ("token", token),
            ("allow_insecure", self.allow_insecure),
        ]


class Logger(Section, frozen=True, kw_only=True):
    """What is logged, and for whom."""

    level: Level = "info"
    """Log this and what is graver. Libraries are logged from `warning` on."""
    pretty: bool = False
    """Lines for people instead of JSON."""


class Backlog(Section, frozen=True, kw_only=True):
    """What a thread does about what was said before the bot came."""

    on_first_join: OnFirstJoin = "since_joined"
    """What to read on a thread without a checkpoint, or joined anew since: `since_joined`;
    `catch_up`, also what was said before the join; `skip_to_head`, nothing of what is there."""
    on_resume: OnResume = "catch_up"
    """What to read after a restart: `catch_up`, all since the checkpoint; `skip_to_head`, nothing
    of what is there."""
    max_replay: Annotated[int, msgspec.Meta(ge=0, le=1000, extra={"unit": "events"})] = 50
    """How much history is read when a thread is joined or resumed; more when a run would be cut."""


class Input(Section, frozen=True, kw_only=True):
    """Whose messages begin a turn."""

    respond_to: Literal["all", "mentions"] = "all"
    """Which messages begin a turn: `all`, or `mentions`, those that [name the
    bot](#whose-messages-begin-a-turn)."""
    instructors: Annotated[tuple[PrincipalId, ...], msgspec.Meta(min_length=1)] | None = None
    """Ids of the principals whose messages begin a turn; everyone who may write when absent. What
    others write is [information only](#whose-messages-begin-a-turn)."""
    max_bot_turns: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = 4
    """Turns in a row that may answer only bots; then the thread is told, and the next turn waits
    for a person. `0`: bots begin none; `null`: no limit."""


class Interrupts(Section, frozen=True, kw_only=True):
    """How long a turn may take to stop. Both together leave room for a stop within 30 s."""

    cooperative_seconds: Annotated[float, msgspec.Meta(gt=0, le=15)] = 10.0
    """For a turn to stop by itself when somebody interrupts it."""
    drain_seconds: Annotated[float, msgspec.Meta(gt=0, le=10)] = 8.0
    """For its processes to be gone after that."""


class Approvals(Section, frozen=True, kw_only=True):
    """How long people may take to decide."""

    expiry_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """A call that nobody has allowed or denied for so long does not run. The agent is told that
    nobody answered, the thread too. Without it a call waits for ever."""


class Stops(Section, frozen=True, kw_only=True):
    """How scuba stops."""

    grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=10)] = 6.0
    """How long a turn may go on when scuba is stopped, before it is interrupted. One that waits for
    a person's decision is interrupted at once."""


class Subthreads(Section, frozen=True, kw_only=True):
    """What becomes of the threads of sub-agents."""

    archive_after: Annotated[float, msgspec.Meta(ge=0, extra={"unit": "seconds"})] | None = None
    """How long after a sub-agent is done its thread is archived, unless somebody has said something
    there since. Without it no thread is. A restart in between leaves the thread as it is."""


class Tools(Section, frozen=True, kw_only=True):
    """The tools by which an agent acts on Bubble."""

    timeout_seconds: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 300.0
    """How long a call of a [Bubble tool](how-to/tools.md) may take, its repetitions included. Then
    the agent is told that it did not end."""


class UsageOptions(Section, frozen=True, kw_only=True):
    """Whether people see what an answer used. The log has it anyway, a line for each."""

    show: bool = False
    """End each run with a `data-usage` part: model, tokens, US dollars, time."""


class Budget(Section, frozen=True, kw_only=True):
    """What the bot may spend."""

    per_thread_usd: Usd | None = None
    """What a thread may cost, by the harness's own count; the bot keeps the sum over restarts. The
    answer that goes beyond it is stopped, and what comes then is answered with a notice."""


class JournalOptions(Section, frozen=True, kw_only=True):
    """How durable the bot's own store is."""

    synchronous: Literal["normal", "full"] = "normal"
    """`normal`: nothing is lost when scuba is killed. `full`: nor when the power goes; each batch
    of events then waits for the disk."""


class Sessions(Section, frozen=True, kw_only=True):
    """How many sessions of the harness there may be, and how long an unused one is kept."""

    idle_hibernate: Annotated[float, msgspec.Meta(ge=1, extra={"unit": "seconds"})] = 600.0
    """How long without a turn until a session is closed. The next message on its thread resumes it,
    and it remembers."""
    max_live: Annotated[int, msgspec.Meta(ge=1)] = 20
    """Sessions that work at once. One that only waits for somebody's decision is not counted. Who
    has to wait is served in order, and told on the thread."""
    max_processes: Annotated[int, msgspec.Meta(ge=1)] = 40
    """Sessions that are open at once, with those that wait or rest. The one that rested longest
    makes room."""


class Settings(Section, frozen=True, kw_only=True):
    """Everything a bot can be told."""

    bubble: Bubble
    claude: Claude = Claude()
    threads: dict[str, Claude] = {}
    """What is otherwise on single threads: any key of `claude` below a thread's id. Objects are
    merged with those of `claude`, lists and values take their place. A
    subthread has what its parent has."""
    logger: Logger = Logger()
    backlog: Backlog = Backlog()
    input: Input = Input()
    interrupt: Interrupts = Interrupts()
    approvals: Approvals = Approvals()
    stop: Stops = Stops()
    sessions: Sessions = Sessions()
    subthreads: Subthreads = Subthreads()
    tools: Tools = Tools()
    usage: UsageOptions = UsageOptions()
    budget: Budget = Budget()
    journal: JournalOptions = JournalOptions()
    state_dir: NonEmpty | None = None
    """Where the bot keeps its journal, one process at a time; a folder of its own below
    `$XDG_STATE_HOME/scuba` or `~/.local/state/scuba` when absent."""


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `scuba` without a command was told."""

    port: int
    state_dir: Path
    model: str | None
    cwd: Path
    ready_file: Path | None
    pretty: bool
    level: Level
    permission_mode: PermissionMode = "default"
