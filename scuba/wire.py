"""The Bubble wire protocol, version 1, as structs.

The only module that knows frame and route names. Server, client and command line read and write
these; actors never see them (`to_event` is the border). Chapter numbers are those of
`docs/protocol.md`. Names are snake_case here, camelCase on the wire; absent and null are the same,
and absent is what is written (1.2).
"""

import json
import re
from typing import Any, Literal, TypeVar, get_args

import msgspec

from actors.events import (
    ApprovalGiven,
    Body,
    Event,
    InterruptRequested,
    Part,
    ResultGiven,
    Role,
    RunFinished,
    RunStarted,
    Unknown,
)

T = TypeVar("T")

PROTOCOL = "1.0"
SUBPROTOCOL = "bubble.v1"
ROLES: tuple[Role, ...] = get_args(Role)

PrincipalKind = Literal["user", "bot", "system"]
Access = Literal["inherit", "direct"]


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A body or part of one. Readers ignore fields they do not know (1.3)."""


# --- limits (12) -------------------------------------------------------------------------------


class Limits(Struct, frozen=True, kw_only=True):
    """What the server takes; told in `/v1/info` and `server.ready`. Sizes in bytes."""

    event_bytes: int = 262_144
    batch_events: int = 256
    batch_bytes: int = 1_048_576
    frame_bytes: int = 524_288
    subscriptions: int = 2_000


FRAME_IN_BYTES = 65_536
BODY_BYTES = 262_144
HEADER_BYTES = 16_384
MAX_NESTING = 64
MAX_INTEGER = 2**53 - 1

# --- identity (2) ------------------------------------------------------------------------------


class Principal(Struct, frozen=True, kw_only=True):
    """Somebody who acts (2.1)."""

    principal_id: str
    kind: PrincipalKind
    display_name: str | None = None
    avatar_url: str | None = None
    email: str | None = None
    discoverable: bool | None = None
    open_to_invites: bool | None = None
    owner_principal_ids: list[str] = []
    created_at: str | None = None
    disabled_at: str | None = None


class Token(Struct, frozen=True, kw_only=True):
    """A bearer token as people may see it; `token`, the plaintext, once only (2.5)."""

    token_id: str
    token: str | None = None
    label: str | None = None
    tail: str | None = None
    created_at: str | None = None
    last_used_at: str | None = None
    expires_at: str | None = None
    revoked_at: str | None = None


class Target(Struct, frozen=True, kw_only=True):
    """What a grant is on (3.1)."""

    type: Literal["system", "thread", "principal"]
    thread_id: str | None = None
    principal_id: str | None = None


class Grant(Struct, frozen=True, kw_only=True):
    """One role of one principal on one target (3.1); `last_seq`, `open_runs` in snapshots (9.1)."""

    target: Target
    principal_id: str | None = None
    role: Role | None = None
    granted_by: str | None = None
    created_at: str | None = None
    joined_seq: int | None = None
    last_seq: int | None = None
    open_runs: list[str] | None = None


class WhoAmI(Struct, frozen=True, kw_only=True):
    """`GET /v1/auth/whoami` (2.3)."""

    principal: Principal
    grants: list[Grant]
    token: Token | None = None
    grants_truncated: bool = False


class NewPrincipal(Struct, frozen=True, kw_only=True):
    """`POST /v1/principals` (2.4)."""

    principal_id: str
    kind: PrincipalKind
    display_name: str | None = None
    avatar_url: str | None = None
    email: str | None = None
    discoverable: bool | None = None
    open_to_invites: bool | None = None
    key: str | None = None


class PrincipalCreated(Struct, frozen=True, kw_only=True):
    """Its answer; a repeat by key withholds the token (2.4)."""

    principal: Principal
    token: Token | None = None
    token_withheld: bool = False


class PrincipalChange(Struct, frozen=True, kw_only=True):
    """`PATCH /v1/principals/:id` (2.6). UNSET leaves a field, None clears it."""

    display_name: str | msgspec.UnsetType | None = msgspec.UNSET
    avatar_url: str | msgspec.UnsetType | None = msgspec.UNSET
    discoverable: bool | msgspec.UnsetType = msgspec.UNSET
    open_to_invites: bool | msgspec.UnsetType = msgspec.UNSET
    disabled_at: str | msgspec.UnsetType | None = msgspec.UNSET


class NewToken(Struct, frozen=True, kw_only=True):
    """`POST /v1/principals/:id/tokens` (2.5)."""

    label: str | None = None
    expires_at: str | None = None
    revoke_others: bool = False
    grace_seconds: int = 0


# --- authority (3) -----------------------------------------------------------------------------


class NewGrant(Struct, frozen=True, kw_only=True):
    """`POST /v1/grants` (3.4)."""

    target: Target
    principal_id: str
    role: Role
    key: str | None = None


class NewInvite(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/invites` (3.4)."""

    principal_id: str
    key: str | None = None


# --- threads (4) -------------------------------------------------------------------------------


class Thread(Struct, frozen=True, kw_only=True):
    """A thread as the caller sees it; `role` is the caller's own (4.1)."""

    thread_id: str
    parent_thread_id: str | None = None
    title: str | None = None
    access: Access = "direct"
    members_can_invite: bool = True
    created_by: str
    created_at: str
    archived_at: str | None = None
    first_seq: int
    last_seq: int
    last_event_at: str | None = None
    role: Role | None = None


class Participant(Struct, frozen=True, kw_only=True):
    """A direct grant on a thread, with whom it is (4.3)."""

    principal_id: str
    role: Role
    kind: PrincipalKind
    display_name: str | None = None
    joined_seq: int


class ActiveRun(Struct, frozen=True, kw_only=True):
    """A run without its finish (4.3)."""

    run_id: str
    principal_id: str
    started_seq: int


class ThreadView(Struct, frozen=True, kw_only=True):
    """`GET /v1/threads/:threadId` (4.3); creating answers only `thread`."""

    thread: Thread
    participants: list[Participant] = []
    active_runs: list[ActiveRun] = []


class NewThread(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads` (4.2)."""

    title: str | None = None
    key: str | None = None
    members_can_invite: bool = True


class Origin(Struct, frozen=True, kw_only=True):
    """The call on the parent thread that a subthread belongs to (4.2)."""

    run_id: str
    tool_call_id: str


class NewSubthread(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/subthreads` (4.2)."""

    key: str | None = None
    title: str | None = None
    access: Access = "inherit"
    origin: Origin | None = None


class ThreadChange(Struct, frozen=True, kw_only=True):
    """`PATCH /v1/threads/:threadId` (4.3). UNSET leaves a field, None clears it."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    members_can_invite: bool | msgspec.UnsetType = msgspec.UNSET
    access: Access | msgspec.UnsetType = msgspec.UNSET
    archived_at: str | msgspec.UnsetType | None = msgspec.UNSET


# --- events (5, 6, 7) --------------------------------------------------------------------------


class Envelope(Struct, frozen=True, kw_only=True):
    """One committed event (5.1). `payload` stays as its author sent it."""

    id: str
    thread_id: str
    seq: int
    ts: str
    principal_id: str
    type: str
    run_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    key: str | None = None
    """Shown to its author only."""
    role: Role | None = None
    bare_left: int | None = None


class NewEvent(Struct, frozen=True, kw_only=True):
    """One event to append (6.1)."""

    type: str
    run_id: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    key: str | None = None


class NewEvents(Struct, frozen=True, kw_only=True):
    """`POST /v1/threads/:threadId/events` (6.1, 6.3)."""

    events: list[NewEvent]
    expected_seq: int | None = None
    log_epoch: str | None = None


class Receipt(Struct, frozen=True, kw_only=True):
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
    extensions: list[Any] = []
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


# --- frames, client to server (8, 9) -----------------------------------------------------------


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


ClientFrame = ClientAuth | ClientSubscribe | ClientUnsubscribe | ClientSubscribeGrants | ClientPing

# --- frames, server to client ------------------------------------------------------------------


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


# --- routes ------------------------------------------------------------------------------------


class Route:
    """Path templates below the base URL. `str.format` them with quoted ids."""

    INFO = "/v1/info"
    WHOAMI = "/v1/auth/whoami"
    PRINCIPALS = "/v1/principals"
    PRINCIPAL = "/v1/principals/{principal_id}"
    TOKENS = "/v1/principals/{principal_id}/tokens"
    TOKEN = "/v1/principals/{principal_id}/tokens/{token_id}"
    GRANTS = "/v1/grants"
    THREADS = "/v1/threads"
    THREAD = "/v1/threads/{thread_id}"
    INVITES = "/v1/threads/{thread_id}/invites"
    SUBTHREADS = "/v1/threads/{thread_id}/subthreads"
    EVENTS = "/v1/threads/{thread_id}/events"
    EVENT = "/v1/threads/{thread_id}/events/{seq}"
    RUN = "/v1/threads/{thread_id}/runs/{run_id}"
    SOCKET = "/v1/ws"
    HEALTH = "/healthz"
    READY = "/readyz"


# --- the border to actors ----------------------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")
_HALF = re.compile(r"\\u[dD][89abcdefABCDEF]|\N{REPLACEMENT CHARACTER}")
_BODIES: dict[str, msgspec.json.Decoder[Any]] = {
    "message_part": msgspec.json.Decoder(Part),
    "run_started": msgspec.json.Decoder(RunStarted),
    "run_finished": msgspec.json.Decoder(RunFinished),
    "run_interrupt_requested": msgspec.json.Decoder(InterruptRequested),
    "tool_call_approval": msgspec.json.Decoder(ApprovalGiven),
    "tool_call_result": msgspec.json.Decoder(ResultGiven),
}


def to_event(envelope: Envelope) -> Event:
    """Return what actors see of an envelope. Never raises: what cannot be read is `Unknown`."""
    return Event(
        seq=envelope.seq,
        principal_id=envelope.principal_id,
        body=_body(envelope.type, envelope.payload),
        run_id=envelope.run_id,
        role=envelope.role,
        bare_left=envelope.bare_left,
    )


def _body(kind: str, payload: msgspec.Raw) -> Body:
    decoder = _BODIES.get(kind)
    if decoder is None:
        return Unknown()
    try:
        body: Body = decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A run begins and ends whatever else its events say, or it would never be final.
        marks: dict[str, Body] = {"run_started": RunStarted(), "run_finished": RunFinished()}
        return marks.get(kind, Unknown())
    return body


def decode(decoder: msgspec.json.Decoder[T], data: bytes | str) -> T:
    """Return what a peer sent. Raises msgspec.DecodeError.

    msgspec refuses half a character, which JavaScript writes when it cuts an emoji; here it costs
    only itself and becomes U+FFFD.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = data if isinstance(data, str) else data.decode(errors="replace")
        if not _HALF.search(text):
            raise
        try:
            whole = json.dumps(json.loads(text), ensure_ascii=False)
        except (ValueError, RecursionError):
            raise error from None
        return decoder.decode(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", whole))
