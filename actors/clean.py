"""What may stand on the wire: text that every peer can store, values within limits (1.2, 12)."""

import json
import re
from typing import cast

import msgspec

MAX_DEPTH = 50
"""Of our values; an event wraps them in half a dozen levels more, and 64 are allowed."""
MAX_INTEGER = 2**53 - 1
SHORTEST = 128
"""No string is cut below this many characters to make a value fit."""

_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_BASE64 = re.compile(r"(?=\S*?[A-Z])(?=\S*?[a-z])(?=\S*?[0-9])[A-Za-z0-9+/_=-]{512}")


def clean_text(text: str) -> str:
    """Return `text` without control characters other than tab, LF and CR.

    Two halves of a surrogate pair become their character, a lone one becomes U+FFFD.
    """
    if _ODD.search(text) is None:
        return text
    text = _CONTROL.sub("", text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pieces(text: str, limit_bytes: int) -> list[str]:
    """Return clean `text` in pieces that are each at most `limit_bytes` long as JSON."""
    step = max(1, limit_bytes // 4)  # no clean code point takes more than 4 bytes of JSON
    return [text[at : at + step] for at in range(0, len(text), step)]


def fit(value: object, limit_bytes: int) -> object:
    """Return `value` clean, at most `MAX_DEPTH` deep and at most `limit_bytes` long as JSON.

    Long strings are shortened first, each with a mark that tells its true size. A value that is
    too big even so becomes the beginning of its JSON text, marked in the same way.
    """
    cut_at = max(SHORTEST, limit_bytes - SHORTEST)
    whole = _clean(value, MAX_DEPTH, cut_at)
    if _size(whole) <= limit_bytes:
        return whole
    if _size(_clean(value, MAX_DEPTH, SHORTEST)) > limit_bytes:
        return _shorten(_as_json(value), limit_bytes // 4)
    while _size(fitting := _clean(value, MAX_DEPTH, cut_at)) > limit_bytes:
        cut_at = max(SHORTEST, cut_at // 2)
    return fitting


def fit_text(text: str, limit_bytes: int) -> str:
    """Return `text` clean and at most `limit_bytes` long as JSON, shortened as by `fit`."""
    return str(fit(text, limit_bytes))


def plain(value: object) -> str:
    """Return what a person reads of a tool's output: its text blocks, else its JSON."""
    if isinstance(value, str):
        return value
    if (texts := _block_texts(value)) is not None:
        return "\n".join(texts)
    return "" if value is None else _as_json(value)


def _block_texts(value: object) -> list[str] | None:
    """Return the texts of a list of text blocks; None when it is anything else."""
    if not isinstance(value, list):
        return None
    texts: list[str] = []
    for block in cast("list[object]", value):
        text = cast("dict[str, object]", block).get("text") if isinstance(block, dict) else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return texts


def _clean(value: object, depth: int, cut_at: int) -> object:
    if isinstance(value, str):
        return _shorten(value, cut_at)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_INTEGER else str(value)
    if not isinstance(value, dict | list | tuple):
        return _shorten(str(value), cut_at)
    if depth == 0:
        return _shorten(_as_json(cast("object", value)), cut_at)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {clean_text(str(k)): _clean(v, depth - 1, cut_at) for k, v in pairs}
    return [_clean(item, depth - 1, cut_at) for item in cast("list[object]", value)]


def _shorten(text: str, cut_at: int) -> str:
    if len(text) <= cut_at:
        return clean_text(text)
    mark = f"[shortened: {len(text.encode('utf-8', 'replace')):,} bytes in all]"
    if _BASE64.match(text[:512]):
        return mark  # the beginning of an encoded file tells nobody anything
    return f"{clean_text(text[: cut_at - len(mark) - 1])}\n{mark}"


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "[nested too deeply to show]"


def _size(value: object) -> int:
    return len(msgspec.json.encode(value))
