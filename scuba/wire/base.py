"""What every struct of the protocol has in common, and the limits that both sides keep (12)."""

from typing import Literal, get_args

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


FRAME_IN_BYTES = 65_536
BODY_BYTES = 262_144
HEADER_BYTES = 16_384
MAX_NESTING = 64
MAX_INTEGER = 2**53 - 1
