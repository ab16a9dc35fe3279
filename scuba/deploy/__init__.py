"""Services for s6, runit and systemd: what a supervisor needs to run scuba unattended.

The folders beside this file hold them as data; `@NAME@` stands for what differs.
"""

import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from scuba.errors import ConfigError, IdentityRefused, StateInUse, UsageError

Supervisor = Literal["s6", "runit", "systemd"]

PERMANENT = sorted(
    error.exit_code for error in (UsageError, StateInUse, IdentityRefused, ConfigError)
)
"""Exit codes after which a restart would end the same way."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """What is run, as whom, and where it logs."""

    command: Sequence[str]
    """The program and its arguments; paths in it are absolute."""
    user: str | None = None
    """Whom it runs as; None: as the supervisor does."""
    log_dir: Path | None = None
    """Where its log goes; None: `main` in the service's own `log`."""


class File(NamedTuple):
    """One file of a service."""

    path: str
    """Below the folder that the supervisor is given."""
    text: str
    mode: int


_PLACES = {
    "s6": {
        "run": "run",
        "finish": "finish",
        "notification-fd": "notification-fd",
        "down-signal": "down-signal",
        "timeout-kill": "timeout-kill",
        "timeout-finish": "timeout-finish",
        "log-run": "log/run",
    },
    "runit": {"run": "run", "check": "check", "finish": "finish", "log-run": "log/run"},
    "systemd": {"scuba.service": "scuba.service"},
}
_PROGRAMS = frozenset({"run", "finish", "check", "log-run"})
_AS_USER = {"s6": "s6-setuidgid {} ", "runit": "chpst -u {} ", "systemd": ""}


def service_files(supervisor: Supervisor, service: Service) -> list[File]:
    """Return every file of a service."""
    folder = files(__name__).joinpath(supervisor)
    values = _values(supervisor, service)
    return [
        File(
            place,
            _filled(folder.joinpath(name).read_text(), values),
            0o755 if name in _PROGRAMS else 0o644,
        )
        for name, place in _PLACES[supervisor].items()
    ]


def _values(supervisor: Supervisor, service: Service) -> dict[str, str]:
    user = service.user and shlex.quote(service.user)
    log_dir = shlex.quote(str(service.log_dir or "./main"))
    return {
        "COMMAND": _command(supervisor, service.command),
        "AS_USER": _AS_USER[supervisor].format(user) if user else "",
        "USER_LINE": f"User={service.user}\n" if user else "",
        "LOG_DIR": log_dir,
        "OWN_LOG": f"\nchown {user} {log_dir}" if user else "",
        "READY": "supervise/ready",
        "PERMANENT": " | ".join(map(str, PERMANENT)),
        "PERMANENT_LIST": " ".join(map(str, PERMANENT)),
        "BACKOFF": files(__name__).joinpath("backoff.sh").read_text().rstrip("\n"),
    }


def _command(supervisor: Supervisor, command: Sequence[str]) -> str:
    if supervisor == "systemd":
        return " ".join(map(_systemd_quoted, command))
    return shlex.join(command)


def _systemd_quoted(word: str) -> str:
    """Return a word as a unit file takes it: its own escapes, and two signs with a meaning."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = escaped and not any(sign in escaped for sign in " \t'\"\\;")
    return escaped if plain else f'"{escaped}"'


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
