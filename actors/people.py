"""Who is who on a thread, and how that is told to an agent."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from actors.clean import clean_text

NAME_CHARS = 100
Kind = Literal["user", "bot", "system"]
_BLANK = re.compile(r"\s+")


class Person(msgspec.Struct, frozen=True):
    """A principal as far as the server tells about it; `kind` None: it tells nothing."""

    principal_id: str
    kind: Kind | None = None
    display_name: str | None = None


People = Mapping[str, Person]


def one_line(text: str) -> str:
    """Return a name that somebody chose as one line that ends no quotation, cut to 100."""
    shown = "".join(c if c.isprintable() else " " for c in clean_text(text))
    return _BLANK.sub(" ", shown).strip().replace('"', "'")[:NAME_CHARS]


def who(principal_id: str, people: People) -> str:
    """Return the id, which the server vouches for, and behind it the name, which it does not."""
    person = people.get(principal_id)
    name = one_line(person.display_name or "") if person is not None else ""
    return f'{principal_id} ("{name}")' if name else principal_id
