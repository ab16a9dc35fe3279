"""Who acts, and what somebody may do on what: chapters 2 and 3."""

from typing import Literal

import msgspec

from actors.events import Role
from scuba.wire.base import (
    DisplayName,
    Email,
    GraceSeconds,
    Label,
    PrincipalKind,
    Struct,
    Url,
)


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


class OwnToken(Struct, frozen=True, kw_only=True):
    """What the caller of whoami came with (2.3); a JWT has no id here, only its end."""

    token_id: str | None = None
    created_at: str | None = None
    expires_at: str | None = None


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
    token: OwnToken | None = None
    grants_truncated: bool = False


class NewPrincipal(Struct, frozen=True, kw_only=True):
    """`POST /v1/principals` (2.4)."""

    principal_id: str
    kind: PrincipalKind
    display_name: DisplayName | None = None
    avatar_url: Url | None = None
    email: Email | None = None
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

    display_name: DisplayName | msgspec.UnsetType | None = msgspec.UNSET
    avatar_url: Url | msgspec.UnsetType | None = msgspec.UNSET
    discoverable: bool | msgspec.UnsetType = msgspec.UNSET
    open_to_invites: bool | msgspec.UnsetType = msgspec.UNSET
    disabled_at: str | msgspec.UnsetType | None = msgspec.UNSET


class NewToken(Struct, frozen=True, kw_only=True):
    """`POST /v1/principals/:id/tokens` (2.5)."""

    label: Label | None = None
    expires_at: str | None = None
    revoke_others: bool = False
    grace_seconds: GraceSeconds = 0


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
