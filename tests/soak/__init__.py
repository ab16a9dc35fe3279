"""A bot that has worked for a long time is as small as one that has worked for a short time."""
