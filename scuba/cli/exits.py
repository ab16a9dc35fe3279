"""How a command ends: a stable exit code, one clear error, no traceback for what is expected."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar, cast

import click

from scuba.descriptors import too_many, used_up
from scuba.errors import IdentityRefused, ScubaError, UsageError

T = TypeVar("T")

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""


def exit_code(command: click.Command, args: Sequence[str]) -> int:
    """Run a command; return its exit code. Only what nobody expects is raised."""
    try:
        code = command.main(list(args), prog_name="scuba", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return UsageError.exit_code
    except click.ClickException as error:
        error.show()
        return ScubaError.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ScubaError as error:
        show(error)
        return error.exit_code
    except OSError as error:  # of whatever is loaded before there is anything to run
        if not used_up(error):
            raise
        show(ScubaError(too_many()))
        return ScubaError.exit_code
    return code if isinstance(code, int) else 0


def show(error: ScubaError) -> None:
    """Tell a person what is wrong and what to do, on stderr."""
    hint = f"\n  {error.hint}" if error.hint else ""
    click.echo(f"error: {error.what}{hint}", err=True)


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` in trio and return its result.

    What it raises, if all of it is expected, comes out as one ScubaError or KeyboardInterrupt.
    """
    import trio  # a person who asks for help should not wait for it

    try:
        return trio.run(main)
    except BaseException as error:
        expected = list(map(_expected, _leaves(error)))
        if None in expected:
            raise
        told = min((one for one in expected if one is not None), key=_weight)
    raise told


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        for inner in group.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _weight(error: BaseException) -> int:
    """Order what to tell: a permanent failure before a passing one, Ctrl-C last."""
    if not isinstance(error, ScubaError):
        return 2
    return 0 if error.exit_code != ScubaError.exit_code else 1


def _expected(error: BaseException) -> BaseException | None:
    from actors.ports import Refused, Unavailable

    match error:
        case OSError() if used_up(error):
            return ScubaError(too_many())
        case ScubaError() | KeyboardInterrupt() | BrokenPipeError():
            return error
        case Unavailable():
            return ScubaError(
                f"the server cannot be used: {error}", "is it running, and is the address right?"
            )
        case Refused(code="unauthenticated" | "principal_disabled"):
            return IdentityRefused(f"the server refused the token: {error.detail}")
        case Refused():
            return ScubaError(f"the server refused: {error.detail} ({error.code})")
        case _:
            return None
