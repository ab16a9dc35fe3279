"""Real servers under load that are killed, stopped, cut off: afterwards every promise holds."""
