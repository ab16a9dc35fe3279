"""Words of others in a prompt: every line quoted, so that none reads as one of scuba's."""

CUT = "\n[…]\n"


def quote(text: str) -> list[str]:
    """Return the lines, each marked. Whatever a model may read as a line break is one."""
    return [f"> {line}" for line in text.splitlines() or [""]]


def shortened(text: str, most_chars: int) -> str:
    """Return a text that keeps its beginning and its end when it is too long."""
    if len(text) <= most_chars:
        return text
    half = (most_chars - len(CUT)) // 2
    return text[:half] + CUT + text[-half:]
