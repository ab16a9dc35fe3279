"""What settings and flags come to: secrets read, places named, the server's own config made."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import unquote

import msgspec

from scuba import wire
from scuba.errors import ConfigError
from scuba.mistakes import Mistake
from scuba.places import place as absolute
from scuba.secret import token_mistake
from scuba.server.config import Oidc, Rate, ServerConfig
from scuba.server.seeds import Seed
from scuba.server.settings import (
    Flags,
    LimitSettings,
    OidcSettings,
    RateSettings,
    ServeOptions,
    ServerSettings,
)
from scuba.server.store import Place, parse_place
from scuba.settings import TokenSource

SECRET_BYTES = 65_536

T = TypeVar("T")


class Reading:
    """Reads what settings point to; `found` are the mistakes, `secrets` what must not be shown."""

    def __init__(self, settings: ServerSettings, flags: Flags, environ: Mapping[str, str]) -> None:
        self._settings, self._flags, self._environ = settings, flags, environ
        self.found: list[Mistake] = []
        self.secrets: list[str] = []

    def options(self, path: Path | None, default_dir: Path) -> ServeOptions:
        """Return what the server is to do; what could not be read is left out, and in `found`."""
        settings, flags = self._settings, self._flags
        state_dir = flags.state_dir or settings.state_dir
        return ServeOptions(
            config=self._config(),
            state_dir=default_dir if state_dir is None else Path(state_dir).absolute(),
            store=self._store(Path() if path is None else path.parent),
            seed=self._seed(),
            source=path,
            secrets=tuple(self.secrets),
            level=flags.level or settings.logger.level,
            pretty=_first(flags.pretty, settings.logger.pretty),
        )

    def _config(self) -> ServerConfig:
        settings, flags, limits = self._settings, self._flags, self._settings.limits
        tls = settings.tls
        return ServerConfig(
            bind=_first(flags.bind, settings.bind),
            port=_first(flags.port, settings.port),
            prefix=settings.prefix,
            allowed_origins=settings.allowed_origins,
            allowed_hosts=settings.allowed_hosts,
            trusted_proxy=_first(flags.trusted_proxy, settings.trusted_proxy),
            allow_insecure=_first(flags.allow_insecure, settings.allow_insecure),
            tls_cert=_path(flags.tls_cert, tls.cert if tls else None),
            tls_key=_path(flags.tls_key, tls.key if tls else None),
            limits=_wire_limits(limits),
            oidc=_oidc(settings.oidc),
            metrics_port=_first(flags.metrics_port, settings.metrics_port),
            master_key=self._secret("masterKey", settings.master_key),
            auto_grant_first_user_system_owner=settings.auto_grant_first_user_system_owner,
            heartbeat_s=limits.heartbeat_seconds,
            write_s=limits.write_seconds,
            auth_s=limits.auth_seconds,
            sockets=limits.sockets,
            sockets_per_principal=limits.sockets_per_principal,
            guests_per_address=limits.guests_per_address,
            requests=_to_rate(limits.requests),
            appends=_to_rate(limits.appends),
            subscribes=_to_rate(limits.subscribes),
            failed_logins=_to_rate(limits.failed_logins),
        )

    def _store(self, folder: Path) -> Place | None:
        text = self._flags.store or self._secret("store", self._settings.store, is_token=False)
        if text is None:
            return None
        if self._flags.store is None and re.match("sqlite:[^/:]", text):
            text = "sqlite:" + absolute(text.removeprefix("sqlite:"), folder, self._environ)
        self.secrets += _passwords(text)
        try:
            return parse_place(text)
        except ConfigError as error:
            self.found.append(("store", "; ".join(filter(None, (error.what, error.hint)))))
            return None

    def _seed(self) -> Seed | None:
        seed = self._settings.seed
        if seed is None:
            return None
        principals = tuple(
            msgspec.structs.replace(
                one,
                initial_token=self._secret(
                    f"seed.principals[{index}].initialToken", one.initial_token
                ),
            )
            for index, one in enumerate(seed.principals)
        )
        return msgspec.structs.replace(seed, principals=principals)

    def _secret(
        self, path: str, source: TokenSource | None, *, is_token: bool = True
    ) -> str | None:
        """Return the text that a source stands for, trimmed; None when there is none."""
        if source is None:
            return None
        try:
            text = _resolve(source, self._environ)
        except ConfigError as error:
            self.found.append((path, error.what))
            return None
        if wrong := token_mistake(text) if is_token else (None if text else "is empty"):
            self.found.append((path, wrong))
            return None
        if is_token:
            self.secrets.append(text)
        return text


def _resolve(source: TokenSource, environ: Mapping[str, str]) -> str:
    """Return a text as written, of an environment variable, or of a file. Raises ConfigError."""
    if isinstance(source, str):
        return source.strip()
    if (source.env is None) == (source.file is None):
        raise ConfigError("must hold exactly one of env and file")
    if source.env is not None:
        if source.env not in environ:
            raise ConfigError(f"the environment variable {source.env} is not set")
        return environ[source.env].strip()
    return _read_secret(Path(cast(str, source.file)))


def _read_secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(SECRET_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot read the file {path}: {why}") from error


def _passwords(url: str) -> list[str]:
    """Return what of a store's URL is a secret, as it is written and as it is meant."""
    password = url.rpartition("@")[0].partition("//")[2].partition(":")[2]
    return [password, unquote(password)] if password else []


def _first(told: T | None, otherwise: T) -> T:
    return otherwise if told is None else told


def _path(*told: str | None) -> Path | None:
    return next((Path(name).absolute() for name in told if name is not None), None)


def _to_rate(settings: RateSettings) -> Rate:
    return Rate(settings.per_second, settings.burst)


def _wire_limits(settings: LimitSettings) -> wire.Limits:
    return wire.Limits(
        event_bytes=settings.event_bytes,
        batch_events=settings.batch_events,
        batch_bytes=settings.batch_bytes,
        frame_bytes=settings.frame_bytes,
        subscriptions=settings.subscriptions,
        artifact_bytes=settings.artifact_bytes,
    )


def _oidc(settings: OidcSettings | None) -> Oidc | None:
    if settings is None:
        return None
    return Oidc(
        issuer=settings.issuer,
        audience=settings.audience,
        algorithms=settings.algorithms,
        jwks_url=settings.jwks_url,
        bind_on_first_use=settings.bind_on_first_use,
    )
