"""The settings of a server (14.3): one frozen struct; `loading` reads it.

`docs/configuration.md` tells people every key; a test keeps the two in step.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from scuba.server.config import Rate, ServerConfig
from scuba.server.seeds import Seed
from scuba.server.store import Place
from scuba.server.store.place import SqlitePlace
from scuba.settings import Level, Logger, NonEmpty, Section, TokenSource

PORT = 7437
"""Where a server listens unless it is told otherwise."""

STORE_NAME = "bubble.db"
"""The store in a state directory."""

Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Size = Annotated[int, msgspec.Meta(ge=1_024, le=1_073_741_824)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_600)]
_DEFAULT = ServerConfig()


class Tls(Section, frozen=True, kw_only=True):
    """What the server shows of itself to whoever connects; both PEM files."""

    cert: NonEmpty
    key: NonEmpty


class OidcSettings(Section, frozen=True, kw_only=True):
    """Who may vouch for people with a JWT (2.2)."""

    issuer: NonEmpty
    audience: NonEmpty
    algorithms: tuple[NonEmpty, ...] = ("RS256",)
    jwks_url: NonEmpty | None = None
    bind_on_first_use: bool = False


class RateSettings(Section, frozen=True, kw_only=True):
    """So many a second on average, and so many at once."""

    per_second: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
    burst: Count


def _rate(rate: Rate) -> RateSettings:
    return RateSettings(per_second=rate.per_s, burst=rate.burst)


class LimitSettings(Section, frozen=True, kw_only=True):
    """What the server takes (12)."""

    event_bytes: Size = _DEFAULT.limits.event_bytes
    batch_events: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = _DEFAULT.limits.batch_events
    batch_bytes: Size = _DEFAULT.limits.batch_bytes
    frame_bytes: Size = _DEFAULT.limits.frame_bytes
    artifact_bytes: Size = _DEFAULT.limits.artifact_bytes
    subscriptions: Count = _DEFAULT.limits.subscriptions
    sockets: Count = _DEFAULT.sockets
    sockets_per_principal: Count = _DEFAULT.sockets_per_principal
    guests_per_address: Count = _DEFAULT.guests_per_address
    requests: RateSettings = _rate(_DEFAULT.requests)
    appends: RateSettings = _rate(_DEFAULT.appends)
    subscribes: RateSettings = _rate(_DEFAULT.subscribes)
    failed_logins: RateSettings = _rate(_DEFAULT.failed_logins)
    heartbeat_seconds: Seconds = _DEFAULT.heartbeat_s
    write_seconds: Seconds = _DEFAULT.write_s
    auth_seconds: Seconds = _DEFAULT.auth_s


class ServerSettings(Section, frozen=True, kw_only=True):
    """Everything a server can be told."""

    bind: NonEmpty = _DEFAULT.bind
    port: Port = PORT
    prefix: str = ""
    store: TokenSource | None = None
    """`sqlite:PATH` or `postgresql://…`; `bubble.db` in the state directory when absent."""
    state_dir: NonEmpty | None = None
    tls: Tls | None = None
    trusted_proxy: bool = False
    allow_insecure: bool = False
    allowed_origins: tuple[NonEmpty, ...] = ()
    allowed_hosts: tuple[NonEmpty, ...] = ()
    master_key: TokenSource | None = None
    auto_grant_first_user_system_owner: bool = False
    oidc: OidcSettings | None = None
    limits: LimitSettings = LimitSettings()
    metrics_port: Port | None = None
    logger: Logger = Logger()
    seed: Seed | None = None

    def __repr__(self) -> str:
        """Return what may be shown: nothing that may be a secret."""
        return f"ServerSettings(bind={self.bind!r}, port={self.port!r})"


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says; None: nothing. It goes before the file."""

    bind: str | None = None
    port: int | None = None
    state_dir: str | None = None
    store: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    trusted_proxy: bool | None = None
    allow_insecure: bool | None = None
    metrics_port: int | None = None
    level: Level | None = None
    pretty: bool | None = None


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `scuba serve` was told, by file and options together."""

    config: ServerConfig
    state_dir: Path
    store: Place | None = None
    """None: in the state directory."""
    seed: Seed | None = None
    source: Path | None = None
    """The configuration file, to name in an error."""
    secrets: tuple[str, ...] = ()
    """What no log line may show."""
    level: Level = "info"
    pretty: bool = False

    @property
    def place(self) -> Place:
        """Return where the store is, told or not."""
        return self.store or SqlitePlace(self.state_dir / STORE_NAME)

    def __repr__(self) -> str:
        """Return what may be shown: nothing that may be a secret."""
        return f"ServeOptions(state_dir={str(self.state_dir)!r}, source={str(self.source)!r})"
