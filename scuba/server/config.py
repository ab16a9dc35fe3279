"""What a person may set about the server, and what is wrong with it, all at once."""

import ipaddress
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from scuba import wire
from scuba.errors import ConfigError
from scuba.mistakes import Mistake
from scuba.server.credentials import form_of

ASYMMETRIC = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""What a JWT may be signed with: whoever can check such a signature cannot make one."""

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")


BATCH_ROOM_BYTES = 65_536
"""What the body of a batch may have beyond its events, which are measured one by one."""


FRAME_ROOM_BYTES = 4_096
"""What of a frame is not its one event's payload: ids, names, and the words round it."""


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
    metrics_port: int | None = None
    """Serves `/metrics` there, on 127.0.0.1 only; 0 lets the system choose, None: not at all."""
    heartbeat_s: float = 20.0
    write_s: float = 20.0
    """Longest time that one write may make no progress (8.8)."""
    auth_s: float = 10.0
    """Longest wait for `client.auth` (8.2)."""
    sockets: int = 2_000
    sockets_per_principal: int = 16
    guests_per_address: int = 32
    """Sockets from one address that have not said yet who they are."""
    requests: Rate = Rate(100, 200)
    appends: Rate = Rate(200, 400)
    subscribes: Rate = Rate(1_000, 2_000)
    failed_logins: Rate = Rate(20 / 60, 20)

    def __repr__(self) -> str:
        """Return all of it but the master key."""
        return f"ServerConfig({', '.join(f'{name}={value!r}' for name, value in _shown(self))})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return all of it but the master key."""
        return _shown(self)


def _shown(config: ServerConfig) -> list[tuple[str, Any]]:
    fields = {name: getattr(config, name) for name in config.__struct_fields__}
    if config.master_key is not None:
        fields["master_key"] = "…"
    return list(fields.items())


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
    if config.metrics_port is not None and not 0 <= config.metrics_port <= 65_535:
        yield "metricsPort", f"{config.metrics_port} is not within 0 to 65535"
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
        yield "heartbeatS, writeS, authS", "each must be above 0"
    yield from _limit_mistakes(config.limits)
    for origin in config.allowed_origins:
        if not _is_origin(origin):
            yield "allowedOrigins", f"{origin!r} is not exactly scheme://host[:port]"
    if config.master_key is not None:
        yield from _master_key_mistakes(config, config.master_key)
    if config.oidc is not None:
        yield from _oidc_mistakes(config.oidc)


def _limit_mistakes(limits: wire.Limits) -> Iterator[Mistake]:
    least = limits.event_bytes + FRAME_ROOM_BYTES
    if limits.frame_bytes < least:
        yield "limits.frameBytes", f"must be at least {least}: a frame holds the largest event"
    if limits.batch_bytes < limits.event_bytes:
        yield "limits.batchBytes", f"must be at least {limits.event_bytes}, as limits.eventBytes"


def _master_key_mistakes(config: ServerConfig, key: str) -> Iterator[Mistake]:
    if not is_loopback(config.bind) or config.trusted_proxy:
        yield "masterKey", "acts as anybody, so bind must be loopback and no trustedProxy in front"
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        yield "masterKey", "must be one word of printable ASCII"
    if form_of(key) is not None:
        yield "masterKey", "looks like a bubble_ token or a JWT; choose another"


def _oidc_mistakes(oidc: Oidc) -> Iterator[Mistake]:
    if not is_safe_url(oidc.issuer) or urlsplit(oidc.issuer).query:
        yield "oidc.issuer", f"{oidc.issuer!r} is not https://…, or http:// on this machine"
    if oidc.jwks_url is not None and not is_safe_url(oidc.jwks_url):
        yield "oidc.jwksUrl", f"{oidc.jwks_url!r} is not https://…, or http:// on this machine"
    if not oidc.audience:
        yield "oidc.audience", "is empty; say for whom the tokens are made"
    if not oidc.algorithms:
        yield "oidc.algorithms", "is empty; RS256 is the usual one"
    for algorithm in oidc.algorithms:
        if algorithm not in ASYMMETRIC:
            known = ", ".join(sorted(ASYMMETRIC))
            yield "oidc.algorithms", f"{algorithm!r} is none of {known}"


def is_safe_url(text: str) -> bool:
    """Tell whether nobody between us and this address can change what it answers."""
    if re.fullmatch(r"[\x21-\x7e]+", text) is None:
        return False
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.fragment or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "*" not in text
        and text == f"{parts.scheme}://{parts.netloc}"
        and "@" not in text
    )
