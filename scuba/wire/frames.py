"""Every frame of the socket, both ways, and how it closes: chapters 8 and 9."""

from typing import Literal

from scuba.wire.base import PROTOCOL, Limits, Struct
from scuba.wire.cursors import DEFAULT_CONSUMER, ReadSeq
from scuba.wire.events import Envelope
from scuba.wire.identity import Grant, Principal

# --- client to server --------------------------------------------------------------------------


class Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    """One text frame on the socket."""


class ClientAuth(Frame, frozen=True, kw_only=True, tag="client.auth"):
    """Must be the first frame (8.2)."""

    token: str | None = None
    principal_id: str | None = None
    instance_id: str | None = None
    protocol: str | None = None
    client: str | None = None


class ClientSubscribe(Frame, frozen=True, kw_only=True, tag="client.subscribe"):
    """From `after + 1` on, history and tail in one (8.3)."""

    thread_id: str
    after: int | Literal["head"]
    log_epoch: str | None = None
    ref: str | None = None


class ClientUnsubscribe(Frame, frozen=True, kw_only=True, tag="client.unsubscribe"):
    """No more of this thread (8.3)."""

    thread_id: str
    ref: str | None = None


class ClientSubscribeGrants(Frame, frozen=True, kw_only=True, tag="client.subscribe_grants"):
    """The caller's own grants: snapshot without `after`, else resume (9.1)."""

    after: int | None = None
    ref: str | None = None


class ClientPing(Frame, frozen=True, kw_only=True, tag="client.ping"):
    """Asks for a `server.pong` (8.7)."""

    ref: str | None = None


class ClientCursor(Frame, frozen=True, kw_only=True, tag="client.cursor"):
    """How far this reader has come; there is no answer (10)."""

    thread_id: str
    consumer: str = DEFAULT_CONSUMER
    seq: ReadSeq


ClientFrame = (
    ClientAuth
    | ClientSubscribe
    | ClientUnsubscribe
    | ClientSubscribeGrants
    | ClientCursor
    | ClientPing
)

# --- server to client --------------------------------------------------------------------------


class ServerReady(Frame, frozen=True, kw_only=True, tag="server.ready"):
    """The answer to `client.auth` (8.2)."""

    connection_id: str
    principal: Principal
    log_epoch: str
    protocol: str = PROTOCOL
    heartbeat_seconds: float
    limits: Limits
    other_instances: int = 0
    time: str


class ServerSubscribed(Frame, frozen=True, kw_only=True, tag="server.subscribed"):
    """The subscription stands (8.3)."""

    thread_id: str
    after: int
    last_seq: int
    ref: str | None = None


class ServerEvents(Frame, frozen=True, kw_only=True, tag="server.events"):
    """1 to 200 events, gapless across frames (8.3)."""

    thread_id: str
    events: list[Envelope]


class ServerCaughtUp(Frame, frozen=True, kw_only=True, tag="server.caught_up"):
    """What was head at subscribe time has been sent (8.3), or the grants log was (9.1)."""

    thread_id: str | None = None
    seq: int | None = None
    stream: Literal["grants"] | None = None
    grant_seq: int | None = None


class ServerUnsubscribed(Frame, frozen=True, kw_only=True, tag="server.unsubscribed"):
    """Nothing more of this thread: `client` asked, or access was `revoked` (8.6)."""

    thread_id: str
    reason: str
    ref: str | None = None


class ServerGrantsSnapshot(Frame, frozen=True, kw_only=True, tag="server.grants_snapshot"):
    """Part of the whole truth about the caller's grants; act after the last (9.1)."""

    grant_seq: int
    grants: list[Grant]
    more: bool
    ref: str | None = None


class ServerGrant(Frame, frozen=True, kw_only=True, tag="server.grant"):
    """One change of the caller's grants (9.1)."""

    grant_seq: int
    action: Literal["granted", "changed", "revoked"]
    grant: Grant


class ServerPong(Frame, frozen=True, kw_only=True, tag="server.pong"):
    """The answer to `client.ping`."""

    ref: str | None = None


class ServerHeartbeat(Frame, frozen=True, kw_only=True, tag="server.heartbeat"):
    """Sent when nothing else was for `heartbeat_seconds` (8.7)."""

    time: str


class ServerError(Frame, frozen=True, kw_only=True, tag="server.error"):
    """A refusal (8.5); `fatal` ones are followed by a close."""

    code: str
    detail: str
    fatal: bool = False
    ref: str | None = None
    thread_id: str | None = None
    last_seq: int | None = None
    first_seq: int | None = None
    log_epoch: str | None = None
    retry_after_ms: int | None = None


class ServerClosing(Frame, frozen=True, kw_only=True, tag="server.closing"):
    """A planned stop follows; come back after the hint (8.9)."""

    reason: str
    reconnect_after_ms: int


ServerFrame = (
    ServerReady
    | ServerSubscribed
    | ServerEvents
    | ServerCaughtUp
    | ServerUnsubscribed
    | ServerGrantsSnapshot
    | ServerGrant
    | ServerPong
    | ServerHeartbeat
    | ServerError
    | ServerClosing
)


class Close:
    """Close codes of the socket (8.9)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    TOO_BIG = 1009
    FAULT = 1011
    PROTOCOL = 4400
    UNAUTHENTICATED = 4401
    REFUSED = 4403
    LAGGARD = 4408
    HEARTBEAT = 4409
    VERSION = 4426
    TOO_MANY = 4429
