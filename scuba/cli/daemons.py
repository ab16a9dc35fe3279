"""The commands that run a bot until they are stopped: `run`, and scuba without a command."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import click

from scuba import log
from scuba.cli.exits import run as run_in_trio
from scuba.cli.root import ready_options
from scuba.cli.welcome import welcome
from scuba.errors import ConfigError
from scuba.local import Local
from scuba.readiness import Readiness, readiness
from scuba.settings import (
    CONFIG_NAME,
    Level,
    LocalOptions,
    PermissionMode,
    Settings,
    load_settings,
    local_state_dir,
    resolve_token,
)


def local(
    *,
    port: int,
    state_dir: str | None,
    model: str | None,
    cwd: str | None,
    permission_mode: str | None,
    ready_file: str | None,
    pretty: bool | None,
    level: str | None,
) -> None:
    """Run server, first thread and bot in this process until stopped."""
    options = LocalOptions(
        port=port,
        state_dir=_state_dir(state_dir),
        model=model,
        cwd=Path(cwd or "").absolute(),
        ready_file=Path(ready_file).absolute() if ready_file else None,
        pretty=_for_people(pretty),
        level=cast(Level, level or "info"),
        permission_mode=cast(PermissionMode, permission_mode or "default"),
    )
    log.configure(options.level, pretty=options.pretty)
    from scuba.app import run_local

    def announce(local: Local) -> None:
        text = welcome(local, options.state_dir, options.model)
        click.echo(text, err=not options.pretty)

    run_in_trio(partial(run_local, options, announce))


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help=f"The settings. Default: {CONFIG_NAME} in this directory.",
)


@click.command()
@config_option
@click.option("--check", is_flag=True, help="Only say whether the settings are right.")
@ready_options
def run(
    *, config: Path | None, check: bool, ready_file: Path | None, notify_fd: int | None
) -> None:
    """Run only the bot, on a server elsewhere.

    Exit codes: 0 stopped; 73 the state directory is in use; 77 the token is refused or belongs to
    another principal; 78 the settings are wrong.
    """
    told = readiness(os.environ, file=ready_file and ready_file.absolute(), fd=notify_fd)
    path = config or found_config()
    settings = load_settings(path, os.environ, needs_token=True)
    log.register_secret(resolve_token(settings.bubble.token, os.environ))
    if check:
        from scuba.cli.check import summary

        click.echo("\n".join(summary(path, settings)))
        return
    log.configure(settings.logger.level, pretty=settings.logger.pretty)
    _run_bot(settings, told, partial(load_settings, path.absolute()))


def _run_bot(settings: Settings, told: Readiness, load: Callable[[], Settings]) -> None:
    from scuba.app import run_bot

    run_in_trio(partial(run_bot, settings, told, load))


def _state_dir(told: str | None) -> Path:
    return Path(told).absolute() if told else local_state_dir(os.environ)


def _for_people(pretty: bool | None) -> bool:
    return sys.stdout.isatty() if pretty is None else pretty


def found_config() -> Path:
    """Return the configuration of this directory. Raises ConfigError when there is none."""
    path = Path(CONFIG_NAME)
    if not path.exists():
        raise ConfigError(
            f"no configuration: there is no {CONFIG_NAME} in {Path.cwd()}",
            "name a file with --config, or run scuba without a command for a local set-up",
        )
    return path
