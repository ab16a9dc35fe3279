"""The settings of a bot: one frozen struct, decoded once, every mistake reported at once.

`docs/configuration.md` tells people every key; a test keeps the two in step.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from actors.backlog import OnFirstJoin, OnResume
from scuba import mistakes
from scuba.errors import ConfigError
from scuba.mistakes import Mistake
from scuba.places import directory_mistake, place, program_mistake, state_root, url_mistake
from scuba.secret import Secret, token_mistake

CONFIG_NAME = "claude-scuba.config.json"
"""What `scuba run` reads from the current directory when it is told no file."""

CONFIG_BYTES = 1_048_576

Level = Literal["debug", "info", "warning", "error"]
PermissionMode = Literal["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
SettingSource = Literal["user", "project", "local"]
NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
PrincipalId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}\Z")]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """One object of the configuration file."""


class TokenRef(Section, frozen=True, kw_only=True):
    """Where the token is: exactly one of an environment variable and a file."""

    env: NonEmpty | None = None
    file: NonEmpty | None = None


TokenSource = str | TokenRef


class Bubble(Section, frozen=True, kw_only=True):
    """The server, and who the bot is there."""

    url: NonEmpty
    principal_id: PrincipalId
    token: TokenSource
    allow_insecure: bool = False
    """Allow plain http to a host that is not this machine (1.1)."""

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


class Claude(Section, frozen=True, kw_only=True):
    """How Claude Code is run for every thread."""

    model: NonEmpty | None = None
    cwd: NonEmpty | None = None
    """Where its tools work; the daemon's own directory when absent."""
    cli_path: NonEmpty | None = None
    """The `claude` to run; the SDK's own when absent."""
    setting_sources: tuple[SettingSource, ...] = ("project",)
    system_prompt_append: str | None = None
    permission_mode: PermissionMode = "default"
    env: dict[str, str] = {}
    """Added to what the CLI inherits. An empty value never hides one that is there."""

    def __repr__(self) -> str:
        """Return what may be shown: of `env` only the names."""
        return f"Claude({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return what may be shown, for rich."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__}
        return list({**shown, "env": {name: Secret(v) for name, v in self.env.items()}}.items())


class Logger(Section, frozen=True, kw_only=True):
    """What is logged, and for whom."""

    level: Level = "info"
    pretty: bool = False
    """For people instead of JSON lines."""


class Backlog(Section, frozen=True, kw_only=True):
    """What a thread does about what was said before the bot came."""

    on_first_join: OnFirstJoin = "since_joined"
    """Without a checkpoint of this log since the latest join."""
    on_resume: OnResume = "catch_up"
    """With one."""
    max_replay: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 50
    """Newest events that are replayed; more when a run would be cut."""


class Interrupts(Section, frozen=True, kw_only=True):
    """How long a turn may take to stop. Both together leave room for a stop within 30 s."""

    cooperative_seconds: Annotated[float, msgspec.Meta(gt=0, le=15)] = 10.0
    """For the harness to stop by itself."""
    drain_seconds: Annotated[float, msgspec.Meta(gt=0, le=10)] = 8.0
    """For its processes to be gone after that."""


class Approvals(Section, frozen=True, kw_only=True):
    """How long people may take to decide."""

    expiry_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """A call that nobody answers for so long does not run; None: it waits for ever."""


class Stops(Section, frozen=True, kw_only=True):
    """How scuba stops."""

    grace_seconds: Annotated[float, msgspec.Meta(ge=0, le=10)] = 6.0
    """For turns that work to come to their end, before they are interrupted."""


class JournalOptions(Section, frozen=True, kw_only=True):
    """How durable the bot's own store is."""

    synchronous: Literal["normal", "full"] = "normal"
    """`normal` outlives kill -9, `full` a power cut as well, at the price of a wait a batch."""


class Sessions(Section, frozen=True, kw_only=True):
    """How many sessions of the harness there may be, and how long an unused one is kept."""

    idle_hibernate: Annotated[float, msgspec.Meta(ge=1)] = 600.0
    """Seconds without a turn until a session is closed; the next message resumes it."""
    max_live: Annotated[int, msgspec.Meta(ge=1)] = 20
    """Sessions that work at once; one that waits for a person's decision is not counted."""
    max_processes: Annotated[int, msgspec.Meta(ge=1)] = 40
    """Sessions that are open at once, whatever they do."""


class Tools(Section, frozen=True, kw_only=True):
    """The tools by which an agent acts on Bubble."""

    timeout_seconds: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 300.0
    """For one call, its repetitions included."""


class Settings(Section, frozen=True, kw_only=True):
    """Everything a bot can be told."""

    bubble: Bubble
    claude: Claude = Claude()
    logger: Logger = Logger()
    backlog: Backlog = Backlog()
    interrupt: Interrupts = Interrupts()
    approvals: Approvals = Approvals()
    stop: Stops = Stops()
    sessions: Sessions = Sessions()
    tools: Tools = Tools()
    journal: JournalOptions = JournalOptions()
    state_dir: NonEmpty | None = None
    """Where the bot keeps its journal; below the person's own state directory when absent."""


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `scuba` without a command was told."""

    port: int
    state_dir: Path
    model: str | None
    cwd: Path
    ready_file: Path | None
    pretty: bool
    level: Level


def load_settings(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in a file, its relative paths made absolute from the file's folder.

    Raises ConfigError, whose text lists every mistake with its JSON path.
    """
    value, found = mistakes.parse(read_config(path))
    if value is not mistakes.UNREADABLE:
        found += mistakes.against(value, Settings)
        found += _of_bubble(value)
    if not found:
        settings = _absolute(msgspec.convert(value, Settings), path.parent, environ)
        found = path_mistakes(settings.claude)
        if not found:
            return settings
    raise config_error(path, found)


def resolve_token(source: TokenSource, environ: Mapping[str, str]) -> str:
    """Return the token that a source stands for, trimmed.

    Raises ConfigError naming the variable or file, never what is in it (field case 11.1).
    """
    match source:
        case TokenRef(env=str(name)):
            return _sound(environ.get(name), f"the environment variable {name}")
        case TokenRef(file=str(name)):
            return _sound(_token_file(Path(name)), f"the token file {name}")
        case TokenRef():
            raise ConfigError("bubble.token must name env or file")
        case str():
            return _sound(source, "bubble.token")


def path_mistakes(claude: Claude) -> list[Mistake]:
    """Return what is wrong with the paths Claude Code is given (field case 10.7)."""
    found: list[Mistake] = []
    if claude.cwd is not None and (wrong := directory_mistake(Path(claude.cwd))):
        found.append(("claude.cwd", wrong))
    if claude.cli_path is not None and (wrong := program_mistake(Path(claude.cli_path))):
        found.append(("claude.cliPath", wrong))
    return found


def bot_state_dir(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return where a bot keeps its state: one folder for each principal of each server."""
    if settings.state_dir is not None:
        return Path(settings.state_dir)
    host = urlsplit(settings.bubble.url).netloc
    name = re.sub(r"[^A-Za-z0-9._~@-]", "_", f"{settings.bubble.principal_id}@{host}")
    return state_root(environ) / name


def local_state_dir(environ: Mapping[str, str]) -> Path:
    """Return where `scuba` without a command keeps its state when nobody said."""
    return state_root(environ) / "local"


def read_config(path: Path) -> bytes:
    """Return what is in a configuration file. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration {path}: {error.strerror}",
            "name an existing file with --config",
        ) from error
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"cannot read the configuration {str(path)!r}: {error}") from error
    if len(data) > CONFIG_BYTES:
        raise ConfigError(f"the configuration {path} is bigger than {CONFIG_BYTES} bytes")
    return data


def _of_bubble(value: object) -> Iterator[Mistake]:
    """Yield the mistakes that a type cannot tell."""
    bubble = _object(_object(value).get("bubble"))
    url: object = bubble.get("url")
    token: object = bubble.get("token")
    if isinstance(url, str) and url.strip():
        insecure = bubble.get("allowInsecure") is True
        if wrong := url_mistake(url, allow_insecure=insecure):
            yield "bubble.url", wrong
    if isinstance(token, str) and (wrong := token_mistake(token.strip())):
        yield "bubble.token", wrong
    ref = _object(token)
    if isinstance(token, dict) and (ref.get("env") is None) == (ref.get("file") is None):
        yield "bubble.token", "must hold exactly one of env and file"


def _object(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _sound(token: str | None, where: str) -> str:
    if token is None:
        raise ConfigError(
            f"no token: {where} is not set", "put the token there, or name another place"
        )
    token = token.strip()
    if wrong := token_mistake(token):
        raise ConfigError(
            f"no token: {where} {wrong}", "put the token there, or name another place"
        )
    return token


def _token_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(65_536).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"no token: cannot read the token file {path}: {why}",
            "name another file, or let this process read it",
        ) from error


def _absolute(settings: Settings, folder: Path, environ: Mapping[str, str]) -> Settings:
    def absolute(name: str | None) -> str | None:
        return None if name is None else place(name, folder, environ)

    bubble, claude = settings.bubble, settings.claude
    if isinstance(bubble.token, TokenRef):
        token = msgspec.structs.replace(bubble.token, file=absolute(bubble.token.file))
        bubble = msgspec.structs.replace(bubble, token=token)
    claude = msgspec.structs.replace(
        claude, cwd=absolute(claude.cwd), cli_path=absolute(claude.cli_path)
    )
    return msgspec.structs.replace(
        settings, bubble=bubble, claude=claude, state_dir=absolute(settings.state_dir)
    )


def config_error(path: Path | None, found: list[Mistake]) -> ConfigError:
    """Return the error that lists every mistake of a configuration, each once.

    Without a path it is the command line's.
    """
    once = list(dict.fromkeys(found))
    count = "a mistake" if len(once) == 1 else f"{len(once)} mistakes"
    lines = [f"  {where or 'the document'}: {wrong}" for where, wrong in once]
    what = "command line" if path is None else f"configuration {path}"
    return ConfigError("\n".join([f"the {what} has {count}:", *lines]))
