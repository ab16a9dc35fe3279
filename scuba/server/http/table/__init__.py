"""What each route takes and answers, as data: the OpenAPI document is made of this (13).

Told here is what is a route's own. What every route has in common is added by
`scuba.server.description.openapi`.
"""

from scuba.server.http.table.artifacts import ARTIFACTS
from scuba.server.http.table.identity import IDENTITY, OPEN_TABLE
from scuba.server.http.table.kinds import Bytes, Content, Described, ListOf
from scuba.server.http.table.threads import THREADS

TABLE: dict[str, dict[str, Described]] = {**IDENTITY, **THREADS, **ARTIFACTS}
"""By path and method: what takes a token."""

__all__ = ["OPEN_TABLE", "TABLE", "Bytes", "Content", "Described", "ListOf"]
