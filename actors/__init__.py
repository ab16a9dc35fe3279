"""What scuba decides: actors and the pure rules they follow. Opens no socket, file or process."""
