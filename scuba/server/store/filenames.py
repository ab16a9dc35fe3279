"""What an artifact may be called, and what it may say it is: pure forms (11.2).

The server keeps a name as text and never makes a path of it. It is refused all the same when
somebody who saves the artifact under it could be led out of a folder, or to a device.
"""

import re
import unicodedata
from urllib.parse import unquote

from scuba.errors import Problem

NAME_CHARACTERS = 200
MEDIA_TYPE_CHARACTERS = 200

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}(?: *; *{_TOKEN}=(?:{_TOKEN}|{_QUOTED}))*")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])", re.IGNORECASE)
_TURNS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of writing: `fdp.exe` could be shown as `exe.pdf`."""
_INVISIBLE = {"Cc", "Cs", "Zl", "Zp"}
_UNQUOTINGS = 4
"""So many layers of percent-encoding are taken off before a name is looked at for the last time."""


def check_name(name: str) -> None:
    """Raise Problem 400 `invalid_json` for what is no plain file name."""
    wrong = _mistake(name)
    for _ in range(_UNQUOTINGS):
        inner = unquote(name)
        if wrong is not None or inner == name:
            break
        name, wrong = inner, _mistake(inner)
    if wrong is not None:
        detail = f"name {wrong}; it must be a plain file name of 1 to {NAME_CHARACTERS} characters"
        raise Problem(400, "invalid_json", detail)


def check_media_type(media_type: str) -> None:
    """Raise Problem 400 `invalid_json` for what is not type/subtype, parameters after it."""
    if len(media_type) > MEDIA_TYPE_CHARACTERS or not _MEDIA_TYPE.fullmatch(media_type):
        detail = "mediaType must be like text/plain, of at most {} characters"
        raise Problem(400, "invalid_json", detail.format(MEDIA_TYPE_CHARACTERS))


def _mistake(name: str) -> str | None:
    """Return what is wrong with a name, or None."""
    if not name.strip():
        return "is empty"
    if len(name) > NAME_CHARACTERS:
        return "is too long"
    if any(letter in "/\\:" for letter in name):
        return "holds one of / \\ :"
    if any(letter in _TURNS or unicodedata.category(letter) in _INVISIBLE for letter in name):
        return "holds a control character"
    if name.startswith(" ") or name.endswith((".", " ")):
        return "begins with a space, or ends with a dot or a space"
    if _RESERVED.fullmatch(name.partition(".")[0].rstrip()):
        return "is reserved for a device"
    return None
