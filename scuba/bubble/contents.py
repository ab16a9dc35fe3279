"""Which address is that of an artifact's content on our server. Pure; nothing else is fetched."""

import re
from urllib.parse import urlsplit

from scuba.bubble.address import Address
from scuba.wire import Route

_ID = r"[A-Za-z0-9._~-]{1,128}"
_CONTENT = re.compile(
    re.escape(Route.CONTENT)
    .replace(re.escape("{artifact_id}"), f"(?P<artifact_id>{_ID})")
    .replace(re.escape("{version}"), r"(?P<version>[1-9][0-9]{0,8})")
)


def artifact_of(url: str, address: Address) -> tuple[str, int] | None:
    """Return the artifact and the version that a URL names on the server of `address`.

    None for every other URL. It may be absolute, on the very same origin, or a path of the server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        return None
    if parts.scheme or parts.netloc:
        secure = parts.scheme == "https"
        origin = (parts.scheme, parts.hostname, port or (443 if secure else 80))
        if origin != ("https" if address.secure else "http", address.host.lower(), address.port):
            return None
    found = _CONTENT.fullmatch(parts.path.removeprefix(address.prefix))
    return (found["artifact_id"], int(found["version"])) if found else None
