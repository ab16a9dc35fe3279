"""The root of the command line. Imports nothing that takes time: help is there at once."""

import importlib
from pathlib import Path
from typing import Any

import click

from scuba import __version__

PORT = 7437
"""Where a local scuba listens unless it is told otherwise."""

DANGEROUS = "bypassPermissions"
MODES = ("default", "acceptEdits", "plan", "dontAsk", DANGEROUS)
"""As `scuba.settings` has them, which takes time to import; a test keeps the two in step."""

COMMANDS = {
    "run": ("scuba.cli.daemons", "Run only the bot, on a server elsewhere."),
    "check": ("scuba.cli.check", "Say whether the settings of a bot are right."),
    "serve": ("scuba.cli.serve", "Run only the server."),
    "store": ("scuba.cli.store", "Look after a server's store."),
    "service": ("scuba.cli.service", "Write a service for s6, runit or systemd."),
    "say": ("scuba.cli.talk", "Say TEXT on THREAD and follow the answer."),
    "tail": ("scuba.cli.talk", "Follow THREAD until Ctrl-C."),
    "approve": ("scuba.cli.decide", "Allow a tool call that waits for a decision."),
    "deny": ("scuba.cli.decide", "Deny a tool call that waits for a decision."),
    "answer": ("scuba.cli.decide", "Answer a question, or give a tool call its result."),
    "interrupt": ("scuba.cli.decide", "Ask the run in hand on THREAD to stop."),
    "threads": ("scuba.cli.talk", "List the threads you take part in, the newest activity first."),
    "schema": ("scuba.cli.schema", "Print the protocol as JSON Schema, or as OpenAPI."),
}
"""Where each command is, and what the help says of it: so help need not load it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return it, None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without loading a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


def log_options(command: Any) -> Any:  # noqa: ANN401  # click decorates functions of any signature
    """Add `--pretty/--json` and `--level` to a daemon's command."""
    pretty = click.option(
        "--pretty/--json",
        default=None,
        help="Log lines for people, or as JSON. Default: for people on a terminal.",
    )
    level = click.option(
        "--level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        show_default="info",
        help="Log this and what is graver.",
    )
    return pretty(level(command))


def ready_options(command: Any) -> Any:  # noqa: ANN401  # as above
    """Add `--ready-file` and `--notify-fd`, for supervisors."""
    file = click.option(
        "--ready-file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Written, for its owner only, once everything works.",
    )
    fd = click.option(
        "--notify-fd",
        type=click.IntRange(3),
        help="A file descriptor that gets a line end once everything works, as s6 wants it.",
    )
    return file(fd(command))


def port_option(command: Any) -> Any:  # noqa: ANN401  # as above
    """Add `--port`."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=PORT,
        show_default=True,
        help="Where the server listens; 0 takes any free port.",
    )(command)


@click.group(cls=LazyGroup, invoke_without_command=True)
@port_option
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False),
    help="Where everything is kept. Default: scuba/local below $XDG_STATE_HOME or ~/.local/state.",
)
@click.option("--model", help='What Claude Code uses; "scripted" needs no account and no network.')
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False),
    help="Where the agent's tools work. Default: here.",
)
@click.option(
    "--permission-mode",
    type=click.Choice(MODES),
    help="Whether the agent asks before it runs a tool. Default: default, it asks on the thread.",
)
@click.option(
    "--allow-dangerous-bypass",
    is_flag=True,
    help="Allow --permission-mode bypassPermissions: every tool then runs unasked.",
)
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False),
    help="Written, for its owner only, once everything works.",
)
@log_options
@click.version_option(__version__, prog_name="scuba")
@click.pass_context
def root(
    ctx: click.Context,
    port: int,
    state_dir: str | None,
    model: str | None,
    cwd: str | None,
    permission_mode: str | None,
    allow_dangerous_bypass: bool,
    ready_file: str | None,
    pretty: bool | None,
    level: str | None,
) -> None:
    """Put a coding agent on a shared conversation.

    Without a command: a server, a first thread and the bot, all in this process.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_stray_options(ctx)
        return
    if permission_mode == DANGEROUS and not allow_dangerous_bypass:
        raise click.UsageError(
            f"--permission-mode {DANGEROUS} lets every tool run unasked; "
            "add --allow-dangerous-bypass if that is what you want",
            ctx,
        )
    from scuba.cli.daemons import local

    local(
        port=port,
        state_dir=state_dir,
        model=model,
        cwd=cwd,
        permission_mode=permission_mode,
        ready_file=ready_file,
        pretty=pretty,
        level=level,
    )


def _refuse_stray_options(ctx: click.Context) -> None:
    """Refuse options that stand before a command: they are not the command's."""
    given = [
        option.opts[0]
        for option in ctx.command.params
        if option.name
        and ctx.get_parameter_source(option.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        name = ctx.invoked_subcommand
        raise click.UsageError(
            f"{given[0]} stands before {name}; put options after the command", ctx
        )
