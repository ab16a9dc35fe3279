"""What all sockets of a server share."""

import msgspec

from scuba.server.config import ServerConfig
from scuba.server.counts import Counts
from scuba.server.login import Logins
from scuba.server.socket.hub import Hub
from scuba.server.store import Store


class SocketParts(msgspec.Struct, frozen=True):
    """Made once by the app; no socket owns any of it."""

    store: Store
    config: ServerConfig
    logins: Logins
    hub: Hub
    counts: Counts
