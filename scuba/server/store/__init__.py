"""The server's memory: principals, grants, threads and their logs, durable before it answers."""

from scuba.server.store.changes import (
    SYSTEM,
    AccessChanged,
    Caller,
    Change,
    Committed,
    GrantChanged,
    Missed,
    Moved,
    PrincipalDisabled,
    TokenEnded,
)
from scuba.server.store.opening import open_database
from scuba.server.store.place import Place, parse_place
from scuba.server.store.store import Store, open_store

__all__ = [
    "SYSTEM",
    "AccessChanged",
    "Caller",
    "Change",
    "Committed",
    "GrantChanged",
    "Missed",
    "Moved",
    "Place",
    "PrincipalDisabled",
    "Store",
    "TokenEnded",
    "open_database",
    "open_store",
    "parse_place",
]
