"""What a person is told when a local scuba is ready: what runs, where, and how to talk to it."""

from pathlib import Path

from scuba.local import LOCAL_NAME, Local


def welcome(local: Local, state_dir: Path, model: str | None) -> str:
    """Return the greeting of `scuba` without a command."""
    agent = "Claude Code, scripted model" if model == "scripted" else "Claude Code"
    return f"""
scuba is running.

  server   {local.url}
  thread   {local.thread_id}
  you      {local.user_principal_id}
  bot      {local.bot_principal_id} ({agent})
  state    {state_dir}

Talk to it from another terminal:

  scuba say main "Hello, what can you do here?"
  scuba tail main

(with --state-dir {state_dir} if it is not the default; programs find address and tokens in
{state_dir / LOCAL_NAME}). Ctrl-C stops everything.
"""


def served(url: str, local: Local | None, state_dir: Path, *, first: bool) -> str:
    """Return the greeting of `scuba serve`; the token is shown once, on the first start.

    Without `local` the server made nobody by itself.
    """
    lines = ["", "The server is running.", "", f"  address  {url}"]
    if local is not None:
        lines.append(f"  you      {local.user_principal_id}")
        if first:
            lines += [f"  token    {local.user_token}", "           (shown this once)"]
        lines += [
            f"  bot      {local.bot_principal_id}; its token is in {state_dir / LOCAL_NAME}",
            f"  thread   {local.thread_id}",
        ]
    lines += ["", "Run the bot with `scuba run --config FILE`. Ctrl-C stops the server.", ""]
    return "\n".join(lines)
