"""Reads the settings of a bot from a file, or says everything that is wrong with it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from scuba import mistakes
from scuba.errors import ConfigError
from scuba.mistakes import Mistake
from scuba.places import place, state_root
from scuba.settings.base import TokenRef
from scuba.settings.checks import Object, as_object, merged, mistakes_beyond_types
from scuba.settings.claude import Claude
from scuba.settings.sections import Settings

CONFIG_NAME = "claude-scuba.config.json"
"""What `scuba run` reads from the current directory when it is told no file."""

CONFIG_BYTES = 1_048_576


def load_settings(
    path: Path, environ: Mapping[str, str] = os.environ, *, needs_token: bool = False
) -> Settings:
    """Return the settings in a file, its relative paths made absolute from the file's folder.

    Each of `threads` is whole: what the thread says, over what `claude` says. Raises ConfigError,
    whose text lists every mistake with its JSON path; with `needs_token` also that the token's
    source holds none.
    """
    value, found = mistakes.parse(read_config(path))
    if value is not mistakes.UNREADABLE:
        found += mistakes.against(value, Settings)
        found += mistakes_beyond_types(value, path.parent, environ, needs_token=needs_token)
    if found:
        raise config_error(path, found)
    return _absolute(msgspec.convert(_spread(value), Settings), path.parent, environ)


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


def config_error(path: Path | None, found: list[Mistake]) -> ConfigError:
    """Return the error that lists every mistake of a configuration, each once.

    Without a path it is the command line's.
    """
    once = list(dict.fromkeys(found))
    count = "a mistake" if len(once) == 1 else f"{len(once)} mistakes"
    lines = [f"  {where or 'the document'}: {wrong}" for where, wrong in once]
    what = "command line" if path is None else f"configuration {path}"
    return ConfigError("\n".join([f"the {what} has {count}:", *lines]))


def _spread(document: object) -> Object:
    """Return a document in which each thread has all that is said for every thread."""
    whole = as_object(document)
    claude = as_object(whole.get("claude"))
    threads = as_object(whole.get("threads"))
    return whole | {"threads": {name: merged(claude, told) for name, told in threads.items()}}


def _absolute(settings: Settings, folder: Path, environ: Mapping[str, str]) -> Settings:
    def absolute(name: str | None) -> str | None:
        return None if name is None else place(name, folder, environ)

    def absolute_claude(claude: Claude) -> Claude:
        return msgspec.structs.replace(
            claude,
            cwd=absolute(claude.cwd),
            cli_path=absolute(claude.cli_path),
            plugins=tuple(place(name, folder, environ) for name in claude.plugins),
        )

    bubble = settings.bubble
    if isinstance(bubble.token, TokenRef):
        token = msgspec.structs.replace(bubble.token, file=absolute(bubble.token.file))
        bubble = msgspec.structs.replace(bubble, token=token)
    return msgspec.structs.replace(
        settings,
        bubble=bubble,
        claude=absolute_claude(settings.claude),
        threads={name: absolute_claude(told) for name, told in settings.threads.items()},
        state_dir=absolute(settings.state_dir),
    )
