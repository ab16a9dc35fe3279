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
    """The certificate chain, PEM."""
    key: NonEmpty
    """Its key, PEM."""


class OidcSettings(Section, frozen=True, kw_only=True):
    """Who may vouch for people with a JWT (2.2)."""

    issuer: NonEmpty
    """Its URL, letter by letter as in its tokens."""
    audience: NonEmpty
    """For whom its tokens must be."""
    algorithms: tuple[NonEmpty, ...] = ("RS256",)
    """How they may be signed; asymmetric ones only."""
    jwks_url: NonEmpty | None = None
    """Where its keys are. The issuer tells it when absent."""
    bind_on_first_use: bool = False
    """A stranger with a good token becomes a user."""


class RateSettings(Section, frozen=True, kw_only=True):
    """So many a second on average, and so many at once."""

    per_second: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
    """So many on average. Whoever gives one of the two gives both."""
    burst: Count
    """So many at once."""


def _rate(rate: Rate) -> RateSettings:
    return RateSettings(per_second=rate.per_s, burst=rate.burst)


class LimitSettings(Section, frozen=True, kw_only=True):
    """What the server takes (12)."""

    event_bytes: Size = _DEFAULT.limits.event_bytes
    """The biggest event, as JSON."""
    batch_events: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = _DEFAULT.limits.batch_events
    """Most events of one append."""
    batch_bytes: Size = _DEFAULT.limits.batch_bytes
    """The biggest append."""
    frame_bytes: Size = _DEFAULT.limits.frame_bytes
    """The biggest frame a socket sends."""
    artifact_bytes: Size = _DEFAULT.limits.artifact_bytes
    """The biggest version of an artifact."""
    subscriptions: Count = _DEFAULT.limits.subscriptions
    """Most subscriptions of a socket."""
    sockets: Count = _DEFAULT.sockets
    """Most sockets of the server."""
    sockets_per_principal: Count = _DEFAULT.sockets_per_principal
    """Most sockets of a principal."""
    guests_per_address: Count = _DEFAULT.guests_per_address
    """Most sockets of one address that have not said yet who they are."""
    requests: RateSettings = _rate(_DEFAULT.requests)
    """Requests of a principal, but appends."""
    appends: RateSettings = _rate(_DEFAULT.appends)
    """Appends of a principal."""
    subscribes: RateSettings = _rate(_DEFAULT.subscribes)
    """Subscribe frames of a socket."""
    failed_logins: RateSettings = _rate(_DEFAULT.failed_logins)
    """Failed logins from an address."""
    heartbeat_seconds: Seconds = _DEFAULT.heartbeat_s
    """A socket hears something at least so often."""
    write_seconds: Seconds = _DEFAULT.write_s
    """A reader that takes nothing for so long is cut off."""
    auth_seconds: Seconds = _DEFAULT.auth_s
    """How long a new socket may be silent about who it is."""


class ServerSettings(Section, frozen=True, kw_only=True):
    """Everything a server can be told."""

    bind: NonEmpty = _DEFAULT.bind
    """The address to listen on. One that other machines can reach needs `tls`, `trustedProxy`
    or `allowInsecure`."""
    port: Port = PORT
    """The port; 0 takes any free one."""
    prefix: str = ""
    """A path that stands before all others, such as `/bubble`."""
    store: TokenSource | None = None
    """`sqlite:PATH`, or `postgresql://USER:PASSWORD@HOST/DATABASE`. Several servers may share a
    PostgreSQL store. `bubble.db` in `stateDir` when absent."""
    state_dir: NonEmpty | None = None
    """Where the server keeps what is its own. One process at a time."""
    tls: Tls | None = None
    """Speak TLS."""
    trusted_proxy: bool = False
    """A proxy in front does TLS and sets `X-Forwarded-For`."""
    allow_insecure: bool = False
    """Other machines may come without TLS: tokens then travel in the clear."""
    allowed_origins: tuple[NonEmpty, ...] = ()
    """Web origins that may call, each exactly `scheme://host[:port]`."""
    allowed_hosts: tuple[NonEmpty, ...] = ()
    """Further names that a loopback bind answers to."""
    master_key: TokenSource | None = None
    """A token that acts as whoever `x-bubble-principal-id` names. On a loopback bind only."""
    auto_grant_first_user_system_owner: bool = False
    """The first user that the server makes by itself becomes system owner, if there is none."""
    oidc: OidcSettings | None = None
    """An issuer that vouches for people: [how to](how-to/sign-in.md)."""
    limits: LimitSettings = LimitSettings()
    metrics_port: Port | None = None
    """Where metrics are, on loopback; 0 takes any free port."""
    logger: Logger = Logger()
    seed: Seed | None = None
    """Whom and what the server has from its first start on."""

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
