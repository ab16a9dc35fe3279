"""Claude Code as a harness: the SDK for the control plane, our own reader for the data.

`harness.ClaudeHarness` is the way in; `settings.ClaudeSettings` is what it is told.
"""
