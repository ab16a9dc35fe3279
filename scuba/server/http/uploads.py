"""A content on its way in: hashed and stored a piece at a time, so that its size costs no memory.

Large ones need a slot: so many at once on the server, one of each principal, each in five minutes.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import trio

from scuba import wire
from scuba.errors import Problem
from scuba.server.apart import apart
from scuba.server.http.ranges import as_digest
from scuba.server.store import Caller
from scuba.server.store.shelf import Shelf
from scuba.server.store.versions import PIECE_BYTES, Content, NewVersion

AT_ONCE = 4
SLOT_S = 10.0
"""Longest wait for a slot."""
UPLOAD_S = 300.0
"""Longest time that the bytes of one content may take."""
RETRY_S = 2


class Uploads:
    """The slots for large contents."""

    def __init__(self) -> None:
        self._room = trio.Semaphore(AT_ONCE)
        self._of: dict[str, trio.Semaphore] = {}

    @asynccontextmanager
    async def slot(self, principal_id: str) -> AsyncGenerator[None]:
        """Hold a slot. Raises Problem 503 when none is free within `SLOT_S`."""
        own = self._of.setdefault(principal_id, trio.Semaphore(1))
        try:
            async with AsyncExitStack() as held:
                with trio.move_on_after(SLOT_S) as patience:
                    await held.enter_async_context(own)
                    await held.enter_async_context(self._room)
                if patience.cancelled_caught:
                    detail = "too many large contents are on their way; try again"
                    raise Problem(503, "unavailable", detail, retry_after=RETRY_S)
                yield
        finally:
            if own.value and not own.statistics().tasks_waiting:
                self._of.pop(principal_id, None)


async def take_version(
    shelf: Shelf,
    caller: Caller,
    artifact_id: str,
    asked: NewVersion,
    body: AsyncIterator[bytes],
    expected: bytes | None,
) -> tuple[bool, wire.ArtifactVersion]:
    """Make a version of a body. Returns whether it is new, and the version.

    `expected` is the SHA-256 that the body must have. Raises Problem 408, 422, and what the store
    refuses; then nothing is left of the body.
    """
    known = await shelf.expect(caller, artifact_id, asked)
    incoming = _Incoming(shelf, caller, stores=not known)
    try:
        content = await incoming.take(body)
        if expected is not None and content.digest != expected:
            told = as_digest(f"sha256:{content.digest.hex()}")
            raise Problem(422, "digest_mismatch", f"the body has {told}", digest=told)
        made = await shelf.add(caller, artifact_id, asked, content)
        incoming.used = made[0]
        return made
    finally:
        await incoming.aclose()


class _Incoming:
    """Owns the pieces that are stored already, until a version has taken them over."""

    def __init__(self, shelf: Shelf, caller: Caller, *, stores: bool) -> None:
        self._shelf, self._caller, self._stores = shelf, caller, stores
        self._content_id = shelf.new_content_id()
        self._hash = hashlib.sha256()
        self._waiting = bytearray()
        self._done_bytes = 0
        self.used = False

    async def take(self, body: AsyncIterator[bytes]) -> Content:
        with trio.move_on_after(UPLOAD_S) as patience:
            async for part in body:
                self._waiting += part
                while len(self._waiting) > PIECE_BYTES:
                    await self._pass_on()
        if patience.cancelled_caught:
            raise Problem(408, "request_timeout", f"the body took more than {UPLOAD_S:g} s")
        tail = bytes(self._waiting)
        await apart(len(tail), partial(self._hash.update, tail))
        return Content(
            content_id=self._content_id,
            stored_bytes=self._done_bytes,
            tail=tail,
            digest=self._hash.digest(),
        )

    async def aclose(self) -> None:
        """Forget what was stored for nothing; what cannot be forgotten now is swept later."""
        if not self._stores or self.used or not self._done_bytes:
            return
        try:
            await self._shelf.drop(self._content_id)
        except Problem as problem:
            if problem.status != 503:
                raise

    async def _pass_on(self) -> None:
        piece = bytes(self._waiting[:PIECE_BYTES])
        del self._waiting[:PIECE_BYTES]
        await apart(len(piece), partial(self._hash.update, piece))
        start, self._done_bytes = self._done_bytes, self._done_bytes + len(piece)
        if self._stores:
            await self._shelf.keep_piece(self._caller, self._content_id, start, piece)
