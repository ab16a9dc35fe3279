"""What every struct of the protocol has in common, and the limits that both sides keep (12)."""

from typing import Annotated, Literal, get_args

import msgspec

from actors.events import Role

PROTOCOL = "1.0"
SUBPROTOCOL = "bubble.v1"
ROLES: tuple[Role, ...] = get_args(Role)

PrincipalKind = Literal["user", "bot", "system"]
Access = Literal["inherit", "direct"]


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A body or part of one. Readers ignore fields they do not know (1.3)."""


class Limits(Struct, frozen=True, kw_only=True):
    """What the server takes; told in `/v1/info` and `server.ready`. Sizes in bytes."""

    event_bytes: int = 262_144
    batch_events: int = 256
    batch_bytes: int = 1_048_576
    frame_bytes: int = 524_288
    subscriptions: int = 2_000
    artifact_bytes: int = 33_554_432


FRAME_IN_BYTES = 65_536
BODY_BYTES = 262_144
HEADER_BYTES = 16_384
MAX_NESTING = 64
MAX_INTEGER = 2**53 - 1
TITLE_CHARACTERS = 200
NAME_CHARACTERS = 100
LABEL_CHARACTERS = 100
URL_CHARACTERS = 2_000
EMAIL_CHARACTERS = 320
REASON_CHARACTERS = 2_000
LONGEST_GRACE_S = 86_400

Title = Annotated[str, msgspec.Meta(max_length=TITLE_CHARACTERS)]
DisplayName = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
Label = Annotated[str, msgspec.Meta(max_length=LABEL_CHARACTERS)]
Url = Annotated[str, msgspec.Meta(max_length=URL_CHARACTERS)]
Email = Annotated[str, msgspec.Meta(max_length=EMAIL_CHARACTERS)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS)]
GraceSeconds = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_GRACE_S)]
Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
