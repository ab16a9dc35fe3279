"""Chapters 2 to 7 over HTTP: authenticate, decode, ask the store, answer."""
