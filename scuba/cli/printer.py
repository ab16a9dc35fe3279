"""Puts segments on the terminal: in colours where there is one, plain everywhere else."""

import io
import sys
from collections.abc import Callable, Iterable

from scuba.cli.render import Segment, Style

COLOURS: dict[Style, str] = {
    "who": "bold cyan",
    "text": "",
    "thinking": "dim italic",
    "tool": "blue",
    "ask": "bold yellow",
    "notice": "magenta",
    "error": "red",
    "quiet": "dim",
}


def printer() -> Callable[[Iterable[Segment]], None]:
    """Return what writes segments to stdout, each at once."""
    out: object = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # not every terminal knows every letter
    return _in_colour() if sys.stdout.isatty() else _plain


def _plain(segments: Iterable[Segment]) -> None:
    for text, _ in segments:
        sys.stdout.write(text)
    sys.stdout.flush()


def _in_colour() -> Callable[[Iterable[Segment]], None]:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)

    def write(segments: Iterable[Segment]) -> None:
        for text, style in segments:
            console.print(Text(text, COLOURS[style]), end="")

    return write
