"""An ASGI 3 server on trio, h11 and wsproto in which every wait ends, whatever a peer does.

HTTP/1.1 and WebSocket, plain or TLS. It knows nothing of what it serves. `lifespan` is not spoken:
who calls `serve_asgi` owns a nursery, and starts and stops there what the app needs.
"""

from scuba.listener.asgi import App, Message, Receive, Scope, Send
from scuba.listener.config import ListenerConfig
from scuba.listener.frames import text_frame
from scuba.listener.server import open_listener, serve_asgi
from scuba.listener.writing import ConnectionGone, Stalled

__all__ = [
    "App",
    "ConnectionGone",
    "ListenerConfig",
    "Message",
    "Receive",
    "Scope",
    "Send",
    "Stalled",
    "open_listener",
    "serve_asgi",
    "text_frame",
]
