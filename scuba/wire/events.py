"""Events as they are appended and read, and what else an HTTP call answers: 5 to 7, 11.1, 13."""

from typing import Any, Literal

import msgspec

from actors.events import Role
from scuba.wire.artifacts import Manifest
from scuba.wire.base import Limits, Struct


def _nothing() -> msgspec.Raw:
    return msgspec.Raw(b"{}")


class Envelope(Struct, frozen=True, kw_only=True, gc=False):
    """One committed event (5.1). `payload` stays as its author sent it."""

    id: str
    thread_id: str
    seq: int
    ts: str
    principal_id: str
    type: str
    run_id: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=_nothing)
    key: str | None = None
    """Shown to its author only."""
    role: Role | None = None
    bare_left: int | None = None


class NewEvent(Struct, frozen=True, kw_only=True, gc=False):
    """One event to append (6.1)."""

    type: str
    run_id: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=_nothing)
    key: str | None = None


class NewEvents(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/events` (6.1, 6.3)."""

    events: list[NewEvent]
    expected_seq: int | None = None
    log_epoch: str | None = None


class LoneEvent(NewEvent, frozen=True, kw_only=True):
    """One event in place of a batch (6.1)."""

    expected_seq: int | None = None
    log_epoch: str | None = None


class Receipt(Struct, frozen=True, kw_only=True, gc=False):
    """What became of one appended event (6.1, 6.2)."""

    id: str
    seq: int
    ts: str
    key: str | None = None
    duplicate: bool = False


class Receipts(Struct, frozen=True, kw_only=True):
    """Answer to an append: one receipt an event, in order."""

    events: list[Receipt]
    last_seq: int


class Page(Struct, frozen=True, kw_only=True):
    """`GET /v1/threads/:threadId/events` (7.1)."""

    thread_id: str
    log_epoch: str
    events: list[Envelope]
    first_seq: int
    last_seq: int
    has_more: bool = False
    next_after: int | None = None
    next_before: int | None = None
    aligned: bool | None = None


class RunView(Struct, frozen=True, kw_only=True):
    """`GET /v1/threads/:threadId/runs/:runId` (7.2)."""

    run_id: str
    principal_id: str
    first_seq: int
    last_seq: int
    status: Literal["open", "completed", "interrupted", "failed", "bare"]


class Items(Struct, frozen=True, kw_only=True):
    """A page of a list; `next_cursor` is opaque (13)."""

    items: list[Any]
    next_cursor: str | None = None
    grant_seq: int | None = None


class Info(Struct, frozen=True, kw_only=True):
    """`GET /v1/info` (11.1)."""

    name: str
    server: str
    protocol: dict[str, int]
    log_epoch: str
    auth_drivers: list[str]
    extensions: list[Manifest] = []
    limits: Limits = Limits()


class ProblemBody(Struct, frozen=True, kw_only=True):
    """`application/problem+json` (13); the code's own fields are beside these."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    request_id: str | None = None
    index: int | None = None
    seq: int | None = None
    last_seq: int | None = None
