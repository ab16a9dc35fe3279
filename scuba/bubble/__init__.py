"""The Bubble client: HTTP calls, one multiplexed WebSocket, and a bot's view of the log on both."""

from scuba.bubble.http import BubbleClient
from scuba.bubble.live import Statistics
from scuba.bubble.log import BubbleLog
from scuba.bubble.tail import follow

__all__ = ["BubbleClient", "BubbleLog", "Statistics", "follow"]
