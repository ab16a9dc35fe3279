"""What a prompt with files is for Claude Code: content blocks of the Messages API, text last."""

import base64
from collections.abc import Sequence
from typing import Any

from actors.harness import Attachment
from scuba.harness.claude.values import clean

Blocks = list[dict[str, Any]]


def content(text: str, attachments: Sequence[Attachment]) -> str | Blocks:
    """Return the content of a user message; without files it is the text itself."""
    if not attachments:
        return clean(text)
    blocks: Blocks = []
    for attachment in attachments:
        blocks += [_text(attachment.label), _file(attachment)]
    return [*blocks, _text(text)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": clean(text)}


def _file(attachment: Attachment) -> dict[str, Any]:
    kind, data = attachment.media_type, attachment.data
    if kind == "text/plain":
        source = {"type": "text", "media_type": kind, "data": clean(data.decode())}
    else:
        encoded = base64.b64encode(data).decode()
        source = {"type": "base64", "media_type": kind, "data": encoded}
    if kind.startswith("image/"):
        return {"type": "image", "source": source}
    title = {"title": clean(attachment.name)} if attachment.name else {}
    return {"type": "document", "source": source, **title}
