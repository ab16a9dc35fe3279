"""What a listener allows its peers: sizes, and how long each wait may last."""

import re
import ssl
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ListenerConfig:
    """Limits of one listener. `_s` are seconds on the trio clock."""

    write_s: float = 20.0
    """A write that makes no progress for so long ends the connection."""
    header_s: float = 10.0
    """From the first byte of a request (or the connect) to the end of its head; TLS handshake."""
    idle_s: float = 75.0
    """Between two requests of one connection."""
    body_s: float = 30.0
    """Between two pieces of a request body."""
    header_bytes: int = 16_384
    """Request line and header fields; 431 beyond."""
    body_bytes: int = 1_114_112
    """One request body; 413 beyond. An app may have lower limits of its own."""
    large_body_path: re.Pattern[bytes] | None = None
    """A request whose path fits this whole may have a body of `large_body_bytes` instead."""
    large_body_bytes: int = 33_554_432
    ws_frame_bytes: int = 65_536
    """One incoming WebSocket message; close 1009 beyond."""
    ws_laggard_code: int = 1008
    """How a WebSocket is closed whose peer makes no progress, if it still hears it."""
    max_connections: int = 4_096
    """At a time; further ones wait in the backlog."""
    grace_s: float = 10.0
    """What runs when the stop comes has so long to end by itself."""
    ssl_context: ssl.SSLContext | None = None
    """Speak TLS with it; `None` is plain."""

    def body_limit(self, path: bytes) -> int:
        """Return how many bytes the body of a request for this path may have."""
        roomy = self.large_body_path is not None and self.large_body_path.fullmatch(path)
        return self.large_body_bytes if roomy else self.body_bytes
