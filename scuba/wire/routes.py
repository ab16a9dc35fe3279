"""Where each call lives below the base URL."""


class Route:
    """Path templates below the base URL. `str.format` them with quoted ids."""

    INFO = "/v1/info"
    WHOAMI = "/v1/auth/whoami"
    PRINCIPALS = "/v1/principals"
    PRINCIPAL = "/v1/principals/{principal_id}"
    TOKENS = "/v1/principals/{principal_id}/tokens"
    TOKEN = "/v1/principals/{principal_id}/tokens/{token_id}"
    GRANTS = "/v1/grants"
    THREADS = "/v1/threads"
    THREAD = "/v1/threads/{thread_id}"
    INVITES = "/v1/threads/{thread_id}/invites"
    SUBTHREADS = "/v1/threads/{thread_id}/subthreads"
    EVENTS = "/v1/threads/{thread_id}/events"
    EVENT = "/v1/threads/{thread_id}/events/{seq}"
    RUN = "/v1/threads/{thread_id}/runs/{run_id}"
    SOCKET = "/v1/ws"
    HEALTH = "/healthz"
    READY = "/readyz"
