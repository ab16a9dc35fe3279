"""Which files a model can be shown: looked into, because one that it refuses spoils a session.

Pure. The limits are those of the Messages API; a harness with other ones may take less.
"""

import base64
import binascii
import re
import struct
from urllib.parse import unquote_to_bytes

from actors.clean import clean_text
from actors.files import File
from actors.harness import Attachment, MediaType

MOST_BYTES = 8 << 20
"""Of all files of a prompt together."""
IMAGE_BYTES = 3_900_000
"""Of one image: 5 MB as base64."""
IMAGE_SIDE = 8_000
"""Pixels."""
PDF_PAGES = 100
TEXT_BYTES = 256 << 10

NOT_SHOWN = "only images, PDF and text are"
TOO_BIG = "it is too big"
BROKEN = "it is not what it says it is"
LOCKED = "it is encrypted"

_PAGE = re.compile(rb"/Type\s*/Page\b")
_TEXTS = {
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/x-sh",
    "application/sql",
}
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""The JPEG markers behind which the size stands."""


def data_of(url: str) -> bytes | None:
    """Return what a `data:` URL holds; None for any other, or when it cannot be read."""
    head, comma, body = url.partition(",")
    if not comma or head[:5].lower() != "data:":
        return None
    plain = unquote_to_bytes(body)
    if not head.lower().endswith(";base64"):
        return plain
    try:
        return base64.b64decode(b"".join(plain.split()), validate=True)
    except binascii.Error:
        return None


def attachment(file: File, data: bytes) -> Attachment | str:
    """Return a file as a model can be shown it, or why it cannot."""
    image = _image(data)
    if image is not None:
        kind, width, height = image
        fits = len(data) <= IMAGE_BYTES and 0 < width <= IMAGE_SIDE and 0 < height <= IMAGE_SIDE
        return _shown(file, kind, data) if fits else TOO_BIG
    if file.media_type == "application/pdf":
        return _pdf(file, data)
    if _is_text(file.media_type):
        return _text(file, data)
    return BROKEN if file.media_type.startswith("image/") else NOT_SHOWN


def may_be_shown(file: File) -> bool:
    """Return whether it is worth looking into, by what its author says of it."""
    kind = file.media_type
    return kind.startswith("image/") or kind == "application/pdf" or _is_text(kind)


def _shown(file: File, media_type: MediaType, data: bytes) -> Attachment:
    label = f"[scuba] {file.sender} attached {file}:"
    return Attachment(label=label, name=file.name, media_type=media_type, data=data)


def _pdf(file: File, data: bytes) -> Attachment | str:
    if not data.startswith(b"%PDF-"):
        return BROKEN
    if b"/Encrypt" in data:
        return LOCKED
    too_long = len(_PAGE.findall(data)) > PDF_PAGES
    return TOO_BIG if too_long else _shown(file, "application/pdf", data)


def _is_text(media_type: str) -> bool:
    suffixed = media_type.endswith(("+json", "+xml", "+yaml"))
    return media_type.startswith("text/") or media_type in _TEXTS or suffixed


def _text(file: File, data: bytes) -> Attachment | str:
    if len(data) > TEXT_BYTES:
        return TOO_BIG
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return BROKEN
    if not text.strip():
        return "it is empty"
    return _shown(file, "text/plain", clean_text(text).encode())


# --- images --------------------------------------------------------------------------------------


def _image(data: bytes) -> tuple[MediaType, int, int] | None:
    """Return type, width and height by what an image says in its head; None when it is none."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return ("image/png", *_ints(">II", data, 16))
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return ("image/gif", *_ints("<HH", data, 6))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return ("image/webp", *_webp(data))
        if data.startswith(b"\xff\xd8\xff"):
            return ("image/jpeg", *_jpeg(data))
    except (struct.error, IndexError):
        pass  # its head is cut
    return None


def _ints(form: str, data: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, at)
    return int(first), int(second)


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = _ints("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int]:
    """Return the size; raises struct.error or IndexError when there is none."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise IndexError("no marker")
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = _ints(">HH", data, at + 5)
            return width, height
        at += 1 if marker == 0xFF else 2 + _ints(">HH", data, at + 2)[0]
