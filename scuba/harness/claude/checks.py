"""What keeps a session from starting, found before it is tried, with its true cause (10.7)."""

import errno
import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from actors.ports import SessionFailed
from scuba.descriptors import too_many, used_up
from scuba.harness.claude.failures import TEXTS, hinted
from scuba.harness.claude.settings import ClaudeSettings
from scuba.places import directory_mistake, program_mistake

ELF_HEADER_BYTES = 20


def check(settings: ClaudeSettings) -> Path:
    """Return the CLI to run. Raises SessionFailed when it or the working directory is unusable."""
    if mistake := directory_mistake(settings.cwd):
        raise _unusable("cwd", "The agent's working directory", settings.cwd, mistake)
    cli = settings.cli_path or find_cli()
    if cli is None:
        raise SessionFailed(
            "bad_cli",
            "Claude Code is not installed. Install it, or name it in `claude.cliPath`.",
            "claude-agent-sdk carries no CLI for this system, and there is no `claude` on PATH",
        )
    if mistake := program_mistake(cli) or _foreign(cli):
        raise _unusable("cliPath", "The Claude Code program", cli, mistake)
    return cli


def find_cli() -> Path | None:
    """Return the CLI that the SDK carries, else the one on PATH. Does not import the SDK."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        bundled = Path(place) / "_bundled" / "claude"
        if bundled.is_file():
            return bundled
    found = shutil.which("claude")
    return Path(found) if found else None


def could_not_start(cli: Path, error: OSError) -> SessionFailed:
    """Return the failure for a CLI that the system would not run."""
    if used_up(error):
        return no_files_left()
    what = "cannot be run on this machine" if error.errno == errno.ENOEXEC else "cannot be run"
    return _unusable("cliPath", "The Claude Code program", cli, f"{cli} {what} ({error.strerror})")


def no_files_left() -> SessionFailed:
    """Return the failure when this process may open no further file."""
    return SessionFailed("too_many_files", TEXTS["too_many_files"], too_many())


def ended_at_start(returncode: int | None, error: str, stderr: Sequence[str]) -> SessionFailed:
    """Return the failure for a CLI that ended, or fell silent, before it was ready."""
    told = "\n".join([error, *stderr])
    detail = f"exit code {returncode}: {told}"
    if "No conversation found" in told:
        text = "The earlier conversation with the agent is gone; a new one begins."
        return SessionFailed("session_lost", text, detail, lost_session=True)
    if "cannot be used with root" in told:
        text = "The agent may not skip permissions as root. Correct `claude.permissionMode`."
        return SessionFailed("bad_permission_mode", text, detail)
    if "sandbox required but unavailable" in told.casefold():
        return SessionFailed("no_sandbox", TEXTS["no_sandbox"], detail)
    if code := hinted(told):
        return SessionFailed(code, TEXTS[code], detail)
    if returncode is None:
        text = "The agent did not start in time. Send the message again."
        return SessionFailed("start_timeout", text, detail)
    text = f"The agent ended while it started (exit code {returncode}); the log says why."
    return SessionFailed("agent_start_failed", text, detail)


def _unusable(setting: str, what: str, path: Path, mistake: str) -> SessionFailed:
    short = mistake.replace(str(path), "").strip()
    code = "bad_cwd" if setting == "cwd" else "bad_cli"
    text = f"{what} {short}. Correct `claude.{setting}` in scuba's settings."
    return SessionFailed(code, text, f"claude.{setting}: {mistake}")


def _foreign(program: Path) -> str | None:
    """Return what is wrong when a program was built for another kind of machine."""
    try:
        theirs, ours = (_header(path) for path in (program, Path(sys.executable)))
    except OSError as error:
        if used_up(error):
            raise no_files_left() from error
        return f"{program} may not be read ({error.strerror})"
    if theirs[:4] == ours[:4] == b"\x7fELF" and theirs[18:20] != ours[18:20]:
        return f"{program} was built for another kind of machine"
    return None


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(ELF_HEADER_BYTES)
