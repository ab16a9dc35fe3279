"""The person's login, lent to a thread's own configuration directory; nothing else of theirs is.

`docs/decisions/0003-claude-config-dir.md` says why it is done in this way.
"""

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from scuba.harness.claude.environment import is_marker
from scuba.places import home

logger = logging.getLogger(__name__)

LENT_STATE = ("primaryApiKey", "oauthAccount", "customApiKeyResponses")
"""What of the person's `.claude.json` is part of a login."""
LENT_SETTINGS = ("apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "gcpAuthRefresh")
"""What of the person's `settings.json` is part of a login; so is its `env`."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What a CLI needs to act with the person's login."""

    storage_dir: str
    """For CLAUDE_SECURESTORAGE_CONFIG_DIR; empty means the person's usual place."""
    env: dict[str, str] = {}
    settings: dict[str, Any] = {}
    state: dict[str, Any] = {}


def find_login(environ: Mapping[str, str]) -> Login:
    """Return the login of the person whose environment this is. Bad files count as missing."""
    chosen = environ.get("CLAUDE_CONFIG_DIR", "")
    config_dir = Path(chosen) if chosen else home(environ) / ".claude"
    state = _read(config_dir / ".claude.json" if chosen else home(environ) / ".claude.json")
    settings = _read(config_dir / "settings.json")
    storage = environ.get("CLAUDE_SECURESTORAGE_CONFIG_DIR", chosen)
    return Login(
        storage_dir=storage,
        env=_strings(settings.get("env"), config_dir / "settings.json"),
        settings={name: settings[name] for name in LENT_SETTINGS if name in settings},
        state={name: state[name] for name in LENT_STATE if name in state},
    )


def lend(
    login: Login | None, config_dir: Path, settings: Mapping[str, Any] | None = None
) -> Path | None:
    """Make a thread's configuration directory ready; return the settings file to name, if any.

    It holds what of the login is a setting, and `settings` beside it. None lends nothing, and takes
    back what was lent before. Raises OSError.
    """
    config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = config_dir / ".claude.json"
    state = {name: value for name, value in _read(own).items() if name not in LENT_STATE}
    _write(own, {**state, **(login.state if login else {})})
    return place_file(
        config_dir / "session-settings.json",
        {**(login.settings if login else {}), **(settings or {})},
    )


def place_file(path: Path, data: Mapping[str, Any]) -> Path | None:
    """Write a file for its owner only, and return its path; without data there is none after."""
    if data:
        _write(path, data)
        return path
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    return None


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object; empty, with one warning, when there is a file and it is none (11.4)."""
    try:
        data: object = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is not used: %s", path, type(error).__name__)
        return {}
    if not isinstance(data, dict):
        logger.warning("%s is not used: it holds no object", path)
        return {}
    return cast(dict[str, Any], data)


def _strings(env: object, path: Path) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, dict):
        logger.warning("`env` in %s is not used: it is no object", path)
        return {}
    given = cast(dict[str, object], env)
    kept = {name: value for name, value in given.items() if isinstance(value, str)}
    if len(kept) < len(given):
        logger.warning("`env` in %s: %d values that are no text", path, len(given) - len(kept))
    return {name: value for name, value in kept.items() if not is_marker(name)}


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a file whole; nobody but its owner may read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(data))
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
