"""What a person may set about the server, and what is wrong with it, all at once."""

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from scuba import wire
from scuba.errors import ConfigError
from scuba.mistakes import Mistake

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


BATCH_ROOM_BYTES = 65_536
"""What the body of a batch may have beyond its events, which are measured one by one."""


class Rate(msgspec.Struct, frozen=True):
    """So many a second on average, and so many at once."""

    per_s: float
    burst: int


class Oidc(msgspec.Struct, frozen=True, kw_only=True):
    """Who may vouch for people with a JWT, and how it is checked (2.2)."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256",)
    """Asymmetric ones only; a token that names another is refused."""
    jwks_url: str | None = None
    """Where the issuer's keys are; else what its discovery document says."""
    bind_on_first_use: bool = False
    """A subject that nobody knows becomes a user at first sight."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens and what it takes (12, 14)."""

    bind: str = "127.0.0.1"
    port: int = 0
    """0 lets the system choose."""
    prefix: str = ""
    allowed_origins: tuple[str, ...] = ()
    """Web origins that may call, each exactly scheme://host[:port] (14.2)."""
    allowed_hosts: tuple[str, ...] = ()
    """Further names that a loopback bind answers to (14.2)."""
    trusted_proxy: bool = False
    """A proxy in front does TLS and sets `X-Forwarded-For`."""
    allow_insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    limits: wire.Limits = wire.Limits()
    oidc: Oidc | None = None
    master_key: str | None = None
    """Acts as whom `x-bubble-principal-id` names; on a loopback bind only (2.2)."""
    auto_grant_first_user_system_owner: bool = False
    heartbeat_s: float = 20.0
    write_s: float = 20.0
    """Longest time that one write may make no progress (8.8)."""
    auth_s: float = 10.0
    """Longest wait for `client.auth` (8.2)."""
    sockets: int = 2_000
    sockets_per_principal: int = 16
    requests: Rate = Rate(100, 200)
    appends: Rate = Rate(200, 400)
    subscribes: Rate = Rate(1_000, 2_000)
    failed_logins: Rate = Rate(20 / 60, 20)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Tell whether a host name or address stays on this machine."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_config(config: ServerConfig) -> None:
    """Raise ConfigError with every mistake of it, one a line."""
    wrong = [f"{where}: {what}" for where, what in config_mistakes(config)]
    if wrong:
        raise ConfigError("\n".join(wrong), "correct the server's settings and start again")


def config_mistakes(config: ServerConfig) -> Iterator[Mistake]:
    """Yield what is wrong with the values together, each with the setting it concerns."""
    tls = config.tls_cert is not None or config.tls_key is not None
    if not 0 <= config.port <= 65_535:
        yield "port", f"{config.port} is not within 0 to 65535"
    if not _PREFIX.fullmatch(config.prefix):
        yield "prefix", f"{config.prefix!r} is not like /path"
    if tls and None in (config.tls_cert, config.tls_key):
        yield "tls", "tlsCert and tlsKey: both or neither"
    if not (is_loopback(config.bind) or tls or config.trusted_proxy or config.allow_insecure):
        yield (
            "bind",
            f"{config.bind!r} can be reached from other machines; that needs TLS (--tls-cert, "
            "--tls-key), a proxy that does it (--trusted-proxy), or --allow-insecure",
        )
    if min(config.heartbeat_s, config.write_s, config.auth_s) <= 0:
        yield "limits", "heartbeatS, writeS, authS: each must be above 0"
    for origin in config.allowed_origins:
        if not _is_origin(origin):
            yield "allowedOrigins", f"{origin!r} is not exactly scheme://host[:port]"


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "*" not in text
        and text == f"{parts.scheme}://{parts.netloc}"
        and "@" not in text
    )
