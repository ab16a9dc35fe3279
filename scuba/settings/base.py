"""What all sections share: how they are written, and the kinds of value that have a name."""

from typing import Annotated, Literal

import msgspec

Level = Literal["debug", "info", "warning", "error"]
NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]
PrincipalId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}\Z")]
Usd = Annotated[float, msgspec.Meta(gt=0, extra={"unit": "US dollars"})]


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """One object of the configuration file."""


class TokenRef(Section, frozen=True, kw_only=True):
    """Where the token is: exactly one of an environment variable and a file."""

    env: NonEmpty | None = None
    """The environment variable that holds it."""
    file: NonEmpty | None = None
    """The file that holds it."""


TokenSource = str | TokenRef
