"""The Bubble server: an event-sourced log of threads with HTTP and a socket in front of it."""

from scuba.server.app import BubbleApp, make_app
from scuba.server.config import Rate, ServerConfig, check_config
from scuba.server.serve import collect_less, serve_bubble
from scuba.server.store import SYSTEM, Caller, Store, open_store

__all__ = [
    "SYSTEM",
    "BubbleApp",
    "Caller",
    "Rate",
    "ServerConfig",
    "Store",
    "check_config",
    "collect_less",
    "make_app",
    "open_store",
    "serve_bubble",
]
