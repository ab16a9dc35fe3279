"""Small files of every kind that a model can be shown, made by hand."""

import struct
import zlib

PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1>>endobj\n"
)


def png(width: int, height: int) -> bytes:
    """Return a picture in one colour."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x60\xa0" * width) * height
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def gif(width: int, height: int) -> bytes:
    """Return the head of a GIF."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int, height: int) -> bytes:
    """Return the head of a JPEG, with a segment of its own before the size."""
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"note"
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8" + comment + b"\xff" + frame + b"\xff\xd9"


def webp(width: int, height: int, kind: bytes) -> bytes:
    """Return the head of a WebP: `VP8 `, `VP8L` or `VP8X`."""
    if kind == b"VP8X":
        size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        body = b"\0\0\0\0" + size
    elif kind == b"VP8L":
        body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + b"\0\0\0\0" + body
