"""What an agent may do on Bubble by calling a tool: as the bot, and never more than the bot may.

A harness sees only `port`; `toolbox` fills it.
"""
