"""Where a Bubble server is, and the addresses of its routes below that (1.1)."""

from urllib.parse import quote, urlsplit

import httpcore
import msgspec

from scuba.errors import ConfigError
from scuba.places import url_mistake
from scuba.wire import Route


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A checked base URL, taken apart. `prefix` is empty or begins with a slash, ends with none."""

    secure: bool
    host: str
    """Without the brackets of an IPv6 address."""
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        """Return what stands in a `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    def at(self, target: str) -> httpcore.URL:
        """Return the URL of a request target, which begins with the prefix."""
        scheme = b"https" if self.secure else b"http"
        return httpcore.URL(
            scheme=scheme, host=self.host.encode(), port=self.port, target=target.encode()
        )

    @property
    def base(self) -> str:
        """Return the base URL for HTTP, without a slash at its end."""
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"

    @property
    def socket_target(self) -> str:
        """Return the request target of the WebSocket (8.1)."""
        return self.prefix + Route.SOCKET


def parse_address(url: str, *, allow_insecure: bool = False) -> Address:
    """Return the address that a base URL names; raises ConfigError naming what is wrong with it.

    The URL itself is not repeated: what is wrong with it may be a password.
    """
    mistake = url_mistake(url, allow_insecure=allow_insecure)
    if mistake is not None:
        raise ConfigError(f"the Bubble server's URL {mistake}", "use https://host[:port][/prefix]")
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return Address(
        secure=secure,
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        prefix=parts.path.rstrip("/"),
    )


def fill(route: str, **ids: str) -> str:
    """Return a path template with its ids in place, each as exactly one segment."""
    return route.format(**{name: _segment(value) for name, value in ids.items()})


def _segment(value: str) -> str:
    # A segment of dots alone would be taken for a step up the path, so they are escaped too.
    quoted = quote(value, safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
