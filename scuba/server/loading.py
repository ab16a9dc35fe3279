"""Reads what a server is told, by file and command line together, with every mistake at once."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec

from scuba import mistakes
from scuba.errors import ConfigError
from scuba.mistakes import Mistake
from scuba.places import place as absolute
from scuba.server.config import ServerConfig, config_mistakes
from scuba.server.seeds import SeedPrincipal, seed_mistakes
from scuba.server.serve import listener_config
from scuba.server.settings import (
    Flags,
    ServeOptions,
    ServerSettings,
    Tls,
)
from scuba.server.store import Place
from scuba.server.values import Reading
from scuba.settings import TokenRef, TokenSource, config_error, read_config

_NAMES = frozenset(ServerSettings.__struct_encode_fields__)


def load_server(
    path: Path | None,
    flags: Flags,
    default_dir: Path,
    environ: Mapping[str, str] = os.environ,
) -> ServeOptions:
    """Return what a file, if there is one, and the command line say together.

    Relative paths are taken from the file's folder, those of the command line from where we are.
    Raises ConfigError with every mistake.
    """
    settings, found = ServerSettings(), list[Mistake]()
    if path is not None:
        settings, found = _decode(path)
        settings = _from_folder(settings, path.parent, environ)
    reading = Reading(settings, flags, environ)
    options = reading.options(path, default_dir)
    found += [*reading.found, *config_mistakes(options.config)]
    if options.seed is not None:
        found += seed_mistakes(options.seed, options.config.limits)
    found += _of_tls(options.config)
    if found:
        raise config_error(path, found)
    return options


def load_place(
    path: Path | None,
    flags: Flags,
    default_dir: Path,
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """Return where the server of a file and a command line has its store.

    What else the file says is not looked at: whoever makes a backup need not know every token.
    Raises ConfigError.
    """
    settings = ServerSettings()
    found: list[Mistake] = []
    if path is not None:
        settings, found = _decode(path)
        settings = _from_folder(settings, path.parent, environ)
    only = ServerSettings(store=settings.store, state_dir=settings.state_dir)
    reading = Reading(only, flags, environ)
    options = reading.options(path, default_dir)
    found = [one for one in found if one[0].startswith(("store", "stateDir"))] + reading.found
    if found:
        raise config_error(path, found)
    return options.place


def _decode(path: Path) -> tuple[ServerSettings, list[Mistake]]:
    """Return what can be read of a file, and what cannot: mistakes elsewhere are to be seen too."""
    value, found = mistakes.parse(read_config(path))
    if value is mistakes.UNREADABLE:
        raise config_error(path, found)
    found += mistakes.against(value, ServerSettings)
    wrong = {re.split(r"[.\[]", place)[0] for place, _ in found}
    sections = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    sound = {name: section for name, section in sections.items() if name in _NAMES - wrong}
    return msgspec.convert(sound, ServerSettings), found


def _of_tls(config: ServerConfig) -> Iterator[Mistake]:
    try:
        listener_config(config)
    except ConfigError as error:
        yield "tls", error.what


# --- paths -------------------------------------------------------------------------------------


def _from_folder(
    settings: ServerSettings, folder: Path, environ: Mapping[str, str]
) -> ServerSettings:
    """Return the settings with the paths that a file of `folder` names made absolute."""

    def source(told: TokenSource | None) -> TokenSource | None:
        if isinstance(told, TokenRef) and told.file is not None:
            return msgspec.structs.replace(told, file=absolute(told.file, folder, environ))
        return told

    def principal(one: SeedPrincipal) -> SeedPrincipal:
        return msgspec.structs.replace(one, initial_token=source(one.initial_token))

    seed, tls, state_dir = settings.seed, settings.tls, settings.state_dir
    if seed is not None:
        seed = msgspec.structs.replace(seed, principals=tuple(map(principal, seed.principals)))
    if tls is not None:
        cert, key = (absolute(name, folder, environ) for name in (tls.cert, tls.key))
        tls = Tls(cert=cert, key=key)
    return msgspec.structs.replace(
        settings,
        store=source(settings.store),
        master_key=source(settings.master_key),
        state_dir=None if state_dir is None else absolute(state_dir, folder, environ),
        tls=tls,
        seed=seed,
    )
