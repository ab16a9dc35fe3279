"""`scuba check`: says everything that is wrong with the settings of a bot, and starts nothing."""

import os
from pathlib import Path

import click

from scuba.cli.daemons import config_option, found_config
from scuba.settings import DANGEROUS, Settings, load_settings


@click.command()
@config_option
def check(*, config: Path | None) -> None:
    """Say whether the settings of a bot are right.

    Nothing is started. Every mistake is named at once, with what was probably meant. Paths are
    looked at, and whether there is a token. Exit codes: 0 they are right; 78 they are wrong.
    """
    path = config or found_config()
    settings = load_settings(path, os.environ, needs_token=True)
    click.echo("\n".join(summary(path, settings)))


def summary(path: Path, settings: Settings) -> list[str]:
    """Return what sound settings come to, a line each; nothing of it is secret."""
    claude = settings.claude
    lines = [
        f"{path} is right: {settings.bubble.principal_id} on {settings.bubble.url}",
        f"  Claude Code: {claude.model or 'its own model'}, "
        f"permission mode {claude.permission_mode}, in {claude.cwd or Path.cwd()}",
    ]
    if settings.threads:
        lines.append(f"  told otherwise: {', '.join(sorted(settings.threads))}")
    for name, told in {"every thread": claude, **settings.threads}.items():
        if told.permission_mode == DANGEROUS:
            lines.append(f"  beware: on {name} nobody is asked before a tool runs")
    return lines
