"""Consumer cursors: how far a reader has come, told to the others (10)."""

from typing import Annotated

import msgspec

from scuba.wire.base import MAX_INTEGER, Struct

DEFAULT_CONSUMER = "default"

ReadSeq = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]


class CursorPosition(Struct, frozen=True, kw_only=True):
    """`PUT /v1/threads/:threadId/cursors/:consumer`, and its answer: the seq that is held."""

    seq: ReadSeq


class ConsumerCursor(Struct, frozen=True, kw_only=True):
    """One item of `GET /v1/threads/:threadId/cursors`."""

    principal_id: str
    consumer: str
    seq: int
    updated_at: str
