"""Where a store is kept, and how that is written: in memory, in a SQLite file, in PostgreSQL."""

from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from scuba.errors import ConfigError

_FORMS = "write sqlite:PATH, or postgresql://USER@HOST/DATABASE"
_SCHEMES = ("postgresql", "postgres")


class SqlitePlace(msgspec.Struct, frozen=True):
    """A file of this machine; None: in memory, gone when the store is closed."""

    path: Path | None

    def __str__(self) -> str:
        """Return it as it may be shown."""
        return "memory" if self.path is None else f"sqlite:{self.path}"


class PostgresPlace(msgspec.Struct, frozen=True):
    """A database of a PostgreSQL server. Shown without its password, also by `repr`."""

    url: str
    """As libpq takes it; it may hold a password."""

    def __str__(self) -> str:
        """Return it as it may be shown: neither password nor parameters."""
        parts = urlsplit(self.url)
        user = f"{parts.username}@" if parts.username else ""
        return f"postgresql://{user}{parts.netloc.rpartition('@')[2]}{parts.path}"

    def __repr__(self) -> str:
        """Return it as it may be shown."""
        return f"PostgresPlace({str(self)!r})"


Place = SqlitePlace | PostgresPlace


def parse_place(text: str) -> Place:
    """Return the place that a text names. Raises ConfigError, which does not repeat the text."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "sqlite":
        return SqlitePlace(_path(rest))
    if colon and scheme in _SCHEMES and rest.startswith("//"):
        _check_url(text)
        return PostgresPlace(text)
    raise ConfigError("the store is neither sqlite:… nor postgresql://…", _FORMS)


def to_place(where: Place | Path | str | None) -> Place:
    """Return the place that a path, a text or None (in memory) stands for. Raises ConfigError."""
    if isinstance(where, str):
        return parse_place(where)
    return SqlitePlace(where) if where is None or isinstance(where, Path) else where


def _path(text: str) -> Path:
    if text.startswith("//") and not text.startswith("///"):
        raise ConfigError(f"sqlite:{text} names a host", "write sqlite:PATH, or sqlite:///PATH")
    if not text.strip("/") or text == ":memory:" or "\0" in text:
        raise ConfigError(f"{'sqlite:' + text!r} names no file", "write sqlite:PATH")
    return Path(text)


def _check_url(text: str) -> None:
    """Refuse what libpq would take apart otherwise than it is meant, and then tell in an error."""
    reserved = "percent-encode what is not a letter or digit in the user and the password"
    try:
        parts = urlsplit(text)
        _check_port(parts)
    except ValueError:
        raise ConfigError("the URL of the store has no valid host and port", reserved) from None
    if parts.netloc.count("@") > 1 or "@" in parts.path or parts.fragment or not text.isprintable():
        raise ConfigError("the URL of the store cannot be taken apart", reserved)


def _check_port(parts: SplitResult) -> None:
    hosts = parts.netloc.rpartition("@")[2]
    if "," not in hosts:  # several hosts are for libpq to read
        _ = parts.port
