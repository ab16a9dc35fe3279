"""The bot's token, from wherever its source points. No error shows it (field case 11.1)."""

from collections.abc import Mapping
from pathlib import Path

from scuba.errors import ConfigError
from scuba.secret import token_mistake
from scuba.settings.base import TokenRef, TokenSource

HINT = "put the token there, or name another place"


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


def _sound(token: str | None, where: str) -> str:
    if token is None:
        raise ConfigError(f"no token: {where} is not set", HINT)
    token = token.strip()
    if wrong := token_mistake(token):
        raise ConfigError(f"no token: {where} {wrong}", HINT)
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
