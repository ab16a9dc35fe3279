"""Who calls the store, and what it tells its listeners after a commit."""

import msgspec

from scuba import wire


class Caller(msgspec.Struct, frozen=True):
    """An authenticated principal; `token_id` names the token it came with, if one did."""

    principal: wire.Principal
    token_id: str | None = None
    expires_at: str | None = None
    """When a credential that the store does not keep ends by itself."""
    request_id: str | None = None
    """The request or connection it speaks in, for the audit (14.4)."""

    @property
    def id(self) -> str:
        """Return the principal's id."""
        return self.principal.principal_id


SYSTEM = Caller(wire.Principal(principal_id="system", kind="system"))
"""The server itself: may do everything, takes part in nothing. For set-up code."""


class Committed(msgspec.Struct, frozen=True, tag=True):
    """New events of one thread, in order and complete: `key` is for their author only."""

    thread_id: str
    events: tuple[wire.Envelope, ...]


class GrantChanged(msgspec.Struct, frozen=True, tag=True):
    """One row of a principal's grant log (9.1)."""

    principal_id: str
    change: wire.ServerGrant


class AccessChanged(msgspec.Struct, frozen=True, tag=True):
    """Somebody's access to this thread or its inheriting subthreads may have shrunk or changed.

    None stands for everybody, or for any thread. Ask `Store.role_on` before sending more (3.7).
    """

    principal_id: str | None
    thread_id: str | None


class TokenEnded(msgspec.Struct, frozen=True, tag=True):
    """A token was revoked or got an earlier end: identify again (2.5)."""

    token_id: str


class PrincipalDisabled(msgspec.Struct, frozen=True, tag=True):
    """Nothing more by or for this principal (2.1)."""

    principal_id: str


class Moved(msgspec.Struct, frozen=True, tag=True):
    """Another server has appended to this thread: its log goes up to there now (16.4)."""

    thread_id: str
    last_seq: int


class Missed(msgspec.Struct, frozen=True, tag=True):
    """Anything may have changed without having been told: look at everything again (16.4)."""


Change = Committed | GrantChanged | AccessChanged | TokenEnded | PrincipalDisabled | Moved | Missed
