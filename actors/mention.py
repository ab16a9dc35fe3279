"""Whether a text names somebody: `@` and an id or a display name, as a word of its own."""

import re
from collections.abc import Iterable

WORD = r"(?<![\w@])@{name}(?!\w|[.~/@-]\w)"
"""Ids may hold `.`, `~` and `-`: before another letter they go on, at the end of a sentence not."""


def mentions(text: str, names: Iterable[str]) -> bool:
    """Return whether a text names one of these; case and the width of white space do not count."""
    return any(re.search(WORD.format(name=re.escape(name)), _plain(text)) for name in _given(names))


def _given(names: Iterable[str]) -> list[str]:
    return [plain for name in names if (plain := _plain(name))]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
