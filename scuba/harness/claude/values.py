"""JSON as the CLI writes it, made fit for others: no half characters, tool results as texts."""

import json
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_SURROGATE = re.compile("[\ud800-\udfff]")


def load(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None if it is none.

    JavaScript writes lone surrogates when it cuts a character in two, and a tool may print what
    is not UTF-8: both become U+FFFD here, where msgspec refuses them (field case 9.1).
    """
    try:
        data: object = json.loads(line.decode(errors="replace"), strict=False)
        return every_text(sound, cast(Any, data)) if isinstance(data, dict) else None
    except (ValueError, RecursionError):
        return None


def sound(text: str) -> str:
    """Return the text with every lone surrogate in it replaced by U+FFFD."""
    return _SURROGATE.sub(REPLACEMENT, text)


def clean(text: str) -> str:
    """Return the text fit for a thread: no lone surrogate, no U+0000 (protocol 1.2)."""
    return sound(text).replace("\0", REPLACEMENT)


def every_text(change: Callable[[str], str], value: object) -> Any:  # noqa: ANN401  # any JSON
    """Return a JSON value with every text in it changed, keys too."""
    match value:
        case str():
            return change(value)
        case dict():
            items = cast(dict[str, object], value).items()
            return {change(key): every_text(change, item) for key, item in items}
        case list():
            return [every_text(change, item) for item in cast(list[object], value)]
        case _:
            return value


def value_of(raw: msgspec.Raw) -> Any:  # noqa: ANN401  # any JSON
    """Return the decoded JSON of a field that is kept raw; None when it is absent.

    That its line was read says little of it: nobody has looked into a raw field before. What
    cannot be read is text.
    """
    source = bytes(raw)
    if not source:
        return None
    try:
        value = msgspec.json.decode(source)
        return every_text(clean, value) if b"\\u0000" in source else value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _leniently(source.decode(errors="replace"))


def _leniently(text: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return every_text(clean, json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return clean(text)


def output_of(content: object) -> object:
    """Return a tool result's content: text blocks as one string, anything else as it is."""
    if isinstance(content, list):
        blocks = cast(list[object], content)
        texts = [text for block in blocks if (text := _text(block)) is not None]
        if len(texts) == len(blocks):
            return "\n".join(texts)
        return blocks
    return "" if content is None else content


def _text(block: object) -> str | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case _:
            return None
