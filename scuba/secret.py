"""Secrets: a wrapper that does not show what it holds, and what a token must look like."""

import re

SECRET_LENGTH = 8
"""Fewest characters of a token. What is shorter could not be searched for in a log line."""


class Secret:
    """A value that shows itself only when asked to with `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        """Return the same for every secret."""
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._value)

    def __reduce__(self) -> str:
        """Raise: a secret is not written anywhere."""
        raise TypeError("a secret cannot be pickled")


def token_mistake(token: str) -> str | None:
    """Return what is wrong with a token, without showing it, or None."""
    if not token.strip():
        return "is empty"
    if len(token) < SECRET_LENGTH:
        return "is too short to be a token"
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        return "holds spaces or characters that no token has"
    return None
