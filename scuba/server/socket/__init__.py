"""Chapters 8 and 9: one socket a client, with a cursor for each thread it follows."""
