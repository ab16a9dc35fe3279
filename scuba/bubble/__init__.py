"""The Bubble client: HTTP calls, one multiplexed WebSocket, and a bot's view of the log on both."""
