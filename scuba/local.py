"""`local.json`: how client commands find a local scuba, and what `--ready-file` says."""

import os
from pathlib import Path

import msgspec

from scuba.errors import ConfigError
from scuba.wire import Struct

LOCAL_NAME = "local.json"


class Local(Struct, frozen=True, kw_only=True):
    """What a local scuba made, as `local.json` keeps it for the client commands (mode 0600)."""

    url: str
    user_principal_id: str
    user_token: str
    bot_principal_id: str
    bot_token: str
    thread_id: str


class ReadyFacts(Struct, frozen=True, kw_only=True):
    """What `--ready-file` says once everything works."""

    url: str
    user_principal_id: str
    user_token: str
    bot_principal_id: str
    thread_id: str
    pid: int


def ready_facts(local: Local) -> ReadyFacts:
    """Return what a ready file says of a local scuba in this process."""
    return ReadyFacts(
        url=local.url,
        user_principal_id=local.user_principal_id,
        user_token=local.user_token,
        bot_principal_id=local.bot_principal_id,
        thread_id=local.thread_id,
        pid=os.getpid(),
    )


def read_local(state_dir: Path) -> Local | None:
    """Return what an earlier start wrote, None if there is nothing. Raises ConfigError."""
    path = state_dir / LOCAL_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Local)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"cannot read {path}: {error}", "remove it: the next start of scuba writes it anew"
        ) from error


def write_private(path: Path, content: Struct) -> None:
    """Write a file that only its owner reads, whole or not at all. Raises ConfigError."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(content) + b"\n")
        new.replace(path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", "choose a place that can be written to"
        ) from error
