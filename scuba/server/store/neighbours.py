"""Who else has a PostgreSQL store open: other servers, by the name that their sessions carry."""

from scuba.server.store.engine import Tx

_OTHERS = """
SELECT COALESCE(CAST(client_addr AS TEXT), 'this machine'), COUNT(*), MIN(backend_start)
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'scuba' AND pid <> pg_backend_pid()
GROUP BY client_addr ORDER BY 1
"""


def neighbours(tx: Tx) -> list[str]:
    """Return where the other sessions of scuba come from; empty when there are none."""
    return [
        f"{count} sessions from {where}, the first since {since:%Y-%m-%dT%H:%MZ}"
        for where, count, since in tx.all(_OTHERS)
    ]
