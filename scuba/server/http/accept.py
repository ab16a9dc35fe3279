"""Which of two forms of an answer a client would rather have (RFC 9110, 12.5.1). Pure."""

import re

_QUALITY = re.compile(r"q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)


def prefers(accept: str | None, special: str, usual: str) -> bool:
    """Return whether a client asks for `special` by name, and no less than for `usual`.

    Wildcards speak for `usual` only. Both by name and alike: `usual`.
    """
    wanted = dict(_wanted(accept or ""))
    quality = wanted.get(special, 0.0)
    family = usual.partition("/")[0] + "/*"
    if usual in wanted:
        return quality > wanted[usual]
    return quality > 0 and quality >= wanted.get(family, wanted.get("*/*", 0.0))


def _wanted(accept: str) -> list[tuple[str, float]]:
    """Return media ranges with their quality; what cannot be read counts as not wanted."""
    found: list[tuple[str, float]] = []
    for item in accept.lower().split(","):
        media_range, *parameters = [part.strip() for part in item.split(";")]
        told = [part for part in parameters if re.match(r"q\s*=", part)]
        quality = _QUALITY.fullmatch(told[0]) if told else None
        found.append((media_range, 1.0 if not told else float(quality[1]) if quality else 0.0))
    return found
