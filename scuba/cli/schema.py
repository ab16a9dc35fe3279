"""`scuba schema`: what travels between server and clients, as JSON Schema, for programs."""

from difflib import get_close_matches
from pathlib import Path

import click

from scuba.errors import ScubaError, UsageError


@click.command
@click.argument("name", required=False)
@click.option("--list", "only_names", is_flag=True, help="Print the names instead.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a file for each name into this directory.",
)
def schema(name: str | None, only_names: bool, out: Path | None) -> None:
    """Print the protocol as JSON Schema, or as OpenAPI.

    NAME is a frame (client.subscribe), an event type (run_started), a chunk type (text-delta), a
    body (NewThread), or openapi; without it, one document has everything.
    """
    if sum((name is not None, only_names, out is not None)) > 1:
        raise UsageError("NAME, --list and --out exclude each other")
    if only_names:
        click.echo("\n".join(_names()))
    elif out is not None:
        _write(out)
    else:
        click.echo(_text(name))


def _names() -> list[str]:
    from scuba.server.description import names

    return [*(name for group in names().values() for name in group), "openapi"]


def _text(name: str | None) -> str:
    from scuba.server.description import document, openapi

    if name is not None and name not in _names():
        near = get_close_matches(name, _names(), 1)
        hint = f"did you mean {near[0]}?" if near else "`scuba schema --list` has them all"
        raise UsageError(f"nothing has the name {name}", hint)
    return _json(openapi() if name == "openapi" else document(name))


def _write(directory: Path) -> None:
    from scuba.server.description import openapi, written

    files = {**written(), "openapi.json": openapi()}
    for path, told in files.items():
        try:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(_json(told) + "\n")
        except OSError as error:
            raise ScubaError(
                f"cannot write {directory / path}: {error.strerror}", "give another directory"
            ) from error
    click.echo(f"{len(files)} files in {directory}")


def _json(told: dict[str, object]) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(told)).decode()
