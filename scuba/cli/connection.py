"""Where a client command finds its server and its token: options, environment, a local scuba."""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from scuba.errors import ConfigError, UsageError
from scuba.local import LOCAL_NAME, read_local
from scuba.secret import Secret
from scuba.settings import TokenRef, local_state_dir, resolve_token

MAIN = "main"
"""What people call the first thread of a local scuba."""

_THREAD_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(\.sub-[a-z0-9]{5}-[a-z0-9]{3}){0,8}")


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and who we are there."""

    url: str
    token: Secret
    main: str | None = None
    """The first thread of a local scuba."""
    options: str = ""
    """What a further command must be given to find the same server."""

    def thread_id(self, name: str) -> str:
        """Return the id of the thread a person names. Raises UsageError."""
        if name in (MAIN, "-") and self.main is not None:
            return self.main
        if not _THREAD_ID.fullmatch(name):
            raise UsageError(f"{name!r} is no thread", "`scuba threads` lists those there are")
        return name


def find_connection(
    url: str | None,
    token_file: str | None,
    state_dir: str | None,
    environ: Mapping[str, str],
) -> Connection:
    """Return what to talk to. Raises ConfigError saying what is missing.

    The token of a local scuba is only ever used with the address it was written with.
    """
    options = _repeated(url, token_file, state_dir)
    told = url or environ.get("SCUBA_URL", "").strip()
    token = _told_token(token_file, environ)
    if told and token is not None:
        return Connection(url=told, token=token, options=options)
    if told:
        raise ConfigError(f"no token for {told}", "set SCUBA_TOKEN, or give --token-file")
    folder = Path(state_dir) if state_dir else local_state_dir(environ)
    local = read_local(folder)
    if local is None:
        raise ConfigError(
            "nothing to talk to: no --url, no SCUBA_URL, and no local scuba was started "
            f"({folder / LOCAL_NAME})",
            "start `scuba` first, or name a server",
        )
    return Connection(
        url=local.url,
        token=token or Secret(local.user_token),
        main=local.thread_id,
        options=options,
    )


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--url`, `--token-file` and `--state-dir` to a command; it is given `connection`."""

    def wrapped(
        url: str | None, token_file: str | None, state_dir: str | None, **rest: object
    ) -> object:
        connection = find_connection(url, token_file, state_dir, os.environ)
        return command(connection=connection, **rest)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    options = (
        click.option("--url", help="The server. Default: $SCUBA_URL, else the local scuba."),
        click.option(
            "--token-file",
            type=click.Path(dir_okay=False),
            help="Where your token is. Default: $SCUBA_TOKEN, else the local scuba's.",
        ),
        click.option(
            "--state-dir",
            type=click.Path(file_okay=False),
            help="Where the local scuba keeps its state, if it was told.",
        ),
    )
    decorated: Callable[..., Any] = wrapped
    for option in options:
        decorated = option(decorated)
    return decorated


def _told_token(token_file: str | None, environ: Mapping[str, str]) -> Secret | None:
    if token_file:
        return Secret(resolve_token(TokenRef(file=token_file), environ))
    if "SCUBA_TOKEN" in environ:
        return Secret(resolve_token(TokenRef(env="SCUBA_TOKEN"), environ))
    return None


def _repeated(url: str | None, token_file: str | None, state_dir: str | None) -> str:
    paths = {"--token-file": token_file, "--state-dir": state_dir}
    given = {"--url": url} | {
        name: os.path.abspath(path) if path else None for name, path in paths.items()
    }
    return " ".join(f"{name} {shlex.quote(value)}" for name, value in given.items() if value)
