"""What is wrong with an address or a path that somebody gave us, said before it is used."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def url_mistake(url: str, *, allow_insecure: bool = False) -> str | None:
    """Return what is wrong with a server's base URL (1.1), or None."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "must begin with https:// or http:// and name a host"
    if not url.isascii() or re.search(r"[\s\x00-\x1f\x7f]", url):
        return "must be plain ASCII without spaces"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password"
    if "?" in url or "#" in url:
        return "must not have a query or a fragment"
    if parts.scheme == "http" and host not in LOOPBACK and not allow_insecure:
        return f"would send the token in the clear to {host}; use https, or set allowInsecure"
    return None


def directory_mistake(path: Path) -> str | None:
    """Return why nothing can work in a directory, or None (field case 10.7)."""
    mode = _mode(path)
    if isinstance(mode, str):
        return mode
    if not stat.S_ISDIR(mode):
        return f"{path} is not a directory"
    if not os.access(path, os.R_OK | os.X_OK):
        return f"{path} may not be read"
    return None


def program_mistake(path: Path) -> str | None:
    """Return why a program cannot be run, or None (field case 10.7)."""
    mode = _mode(path)
    if isinstance(mode, str):
        return mode
    if not stat.S_ISREG(mode):
        return f"{path} is not a file"
    if not os.access(path, os.X_OK):
        return f"{path} is not executable"
    return None


def _mode(path: Path) -> int | str:
    """Return what a path leads to, or why it leads nowhere."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return f"{path} does not exist"
    except OSError as error:
        return f"{path} cannot be used: {error.strerror}"
    except ValueError:
        return "holds U+0000"


def state_root(environ: Mapping[str, str]) -> Path:
    """Return the folder below which each bot and server has a state directory of its own."""
    base = environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else home(environ) / ".local" / "state") / "scuba"


def home(environ: Mapping[str, str]) -> Path:
    """Return the person's home directory."""
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def place(name: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Return a path as written in a file of `folder`, made absolute; `~` is the home."""
    if name == "~" or name.startswith("~/"):
        return str(home(environ) / name[2:])
    return os.path.normpath(folder.absolute() / name)
