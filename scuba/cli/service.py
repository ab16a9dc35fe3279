"""`scuba service`: writes what a supervisor needs to run scuba unattended."""

import sys
from pathlib import Path
from typing import cast

import click

from scuba.deploy import File, Service, Supervisor, service_files
from scuba.errors import ConfigError
from scuba.settings import CONFIG_NAME, load_settings

NEXT = {
    "s6": "link it into the scan directory of s6-svscan, then: s6-svscanctl -a SCANDIR",
    "runit": "link it into the directory that runsvdir watches, for example /etc/service",
    "systemd": "copy scuba.service to /etc/systemd/system, then: systemctl enable --now scuba",
}


@click.command()
@click.argument("supervisor", type=click.Choice(list(NEXT)))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write; it must be empty or new.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The settings. Default: {CONFIG_NAME} in this directory.",
)
@click.option("--serve", is_flag=True, help="The server instead of the bot.")
@click.option("--user", help="Whom it runs as. Default: as the supervisor does.")
@click.option(
    "--log-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where its log goes. Default: log/main in the folder. systemd has its journal.",
)
def service(
    *,
    supervisor: str,
    out: Path,
    config: Path | None,
    serve: bool,
    user: str | None,
    log_dir: Path | None,
) -> None:
    """Write a service for s6, runit or systemd.

    It restarts scuba after a crash, with a growing wait, and leaves it down after an exit code
    that would come again: 64, 73, 77, 78.
    """
    command = _command(_checked(config, serve), serve)
    asked = Service(command=command, user=user, log_dir=log_dir and log_dir.absolute())
    _write(out, service_files(cast(Supervisor, supervisor), asked))
    click.echo(f"{out} is written; {NEXT[supervisor]}")


def _checked(config: Path | None, serve: bool) -> Path | None:
    """Return the absolute path of settings that are right. Raises ConfigError."""
    if serve:
        return config and config.absolute()
    path = (config or Path(CONFIG_NAME)).absolute()
    load_settings(path)
    return path


def _command(config: Path | None, serve: bool) -> list[str]:
    told = [] if config is None else ["--config", str(config)]
    return [sys.executable, "-m", "scuba", "serve" if serve else "run", *told]


def _write(out: Path, found: list[File]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise ConfigError(f"{out} is not empty", "name another folder, or empty this one")
        for file in found:
            path = out / file.path
            path.parent.mkdir(exist_ok=True)
            path.write_text(file.text)
            path.chmod(file.mode)
    except OSError as error:
        raise ConfigError(
            f"cannot write the service {out}: {error.strerror}", "choose another folder"
        ) from error
