"""`scuba serve`: the server alone, told by options, by a configuration file, or by both."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import cast

import click

from scuba import log
from scuba.cli.exits import run as run_in_trio
from scuba.cli.root import PORT, log_options, ready_options
from scuba.cli.welcome import served
from scuba.local import LOCAL_NAME, Local
from scuba.readiness import readiness
from scuba.settings import Level, local_state_dir


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The settings, JSON; by custom bubble.config.json. Options go before what it says.",
)
@click.option("--check", is_flag=True, help="Only say whether the settings are right.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    show_default=str(PORT),
    help="Where the server listens; 0 takes any free port.",
)
@click.option("--bind", show_default="127.0.0.1", help="The address to listen on.")
@click.option(
    "--store",
    metavar="URL",
    help="sqlite:PATH, or postgresql://USER@HOST/DATABASE. Default: in the state directory.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False),
    help="Where everything is kept. Default: scuba/local below $XDG_STATE_HOME or ~/.local/state.",
)
@click.option("--tls-cert", type=click.Path(dir_okay=False), help="A certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(dir_okay=False), help="Its key, PEM.")
@click.option("--trusted-proxy", is_flag=True, default=None, help="A proxy in front does TLS.")
@click.option(
    "--allow-insecure", is_flag=True, default=None, help="Other machines may come without TLS."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Where metrics are, on loopback."
)
@ready_options
@log_options
def serve(
    *,
    config: Path | None,
    check: bool,
    port: int | None,
    bind: str | None,
    store: str | None,
    state_dir: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    trusted_proxy: bool | None,
    allow_insecure: bool | None,
    metrics_port: int | None,
    ready_file: Path | None,
    notify_fd: int | None,
    pretty: bool | None,
    level: str | None,
) -> None:
    """Run only the server.

    Its first start makes a user and shows the user's token, once; a configuration with a seed, or
    with an issuer that vouches for people, makes who and what it names, and nothing else.

    Exit codes: 0 stopped; 73 the state directory or the store is in use; 78 the settings are wrong.
    """
    told = readiness(os.environ, file=ready_file and ready_file.absolute(), fd=notify_fd)
    from scuba.server.loading import load_server
    from scuba.server.settings import Flags

    if pretty is None and config is None:
        pretty = sys.stdout.isatty()
    flags = Flags(
        bind=bind,
        port=port,
        state_dir=state_dir,
        store=store,
        tls_cert=tls_cert,
        tls_key=tls_key,
        trusted_proxy=trusted_proxy,
        allow_insecure=allow_insecure,
        metrics_port=metrics_port,
        level=cast("Level | None", level),
        pretty=pretty,
    )
    load = partial(load_server, config, flags, local_state_dir(os.environ), os.environ)
    options = load()
    for secret in options.secrets:
        log.register_secret(secret)
    if check:
        click.echo(f"{config or 'the command line'} is right")
        return
    log.configure(options.level, pretty=options.pretty)
    from scuba.app import run_server

    first = not (options.state_dir / LOCAL_NAME).exists()

    def announce(url: str, local: Local | None) -> None:
        click.echo(served(url, local, options.state_dir, first=first), err=not options.pretty)

    run_in_trio(partial(run_server, options, told, announce, lambda: load().level))
