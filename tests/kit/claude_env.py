"""A place for a Claude Code CLI, real or fake, in which it sees nothing of this machine."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEY = "sk-ant-dummy-not-a-key"
SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_GROWTHBOOK": "1",
    "DISABLE_BUG_COMMAND": "1",
    "DISABLE_INSTALLATION_CHECKS": "1",
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "CLAUDE_CODE_ENABLE_TELEMETRY": "0",
}
"""Keep the CLI off the network, whatever it would like to report."""
MAX_RETRIES = 1


def hermetic_env(tmp_path: Path, base_url: str) -> dict[str, str]:
    """Return the whole environment of a CLI that knows only `tmp_path` and `base_url`.

    Its home, configuration and temporary files are below `tmp_path`, which should be short: a
    socket of the CLI lives there, too. Failed model calls are tried again once.
    """
    places = {"HOME": "home", "CLAUDE_CONFIG_DIR": "config", "TMPDIR": "tmp"}
    for name in places.values():
        (tmp_path / name).mkdir(exist_ok=True)
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": base_url,
        "NO_PROXY": "127.0.0.1,localhost",
        "CLAUDE_CODE_MAX_RETRIES": str(MAX_RETRIES),
        **{variable: str(tmp_path / name) for variable, name in places.items()},
        **SWITCHES,
    }


def fake_cli(tmp_path: Path, **faults: object) -> Path:
    """Return an executable that is the fake CLI, with faults from its start (`fake_process.Start`).

    The test's own interpreter runs it; `exec` keeps the pid, so what is killed is the fake itself.
    """
    tmp_path.mkdir(parents=True, exist_ok=True)
    program = tmp_path / "claude"
    option = f"--fake={json.dumps(faults)}"
    program.write_text(
        "#!/bin/sh\n"
        f"PYTHONPATH='{ROOT}' exec '{sys.executable}' -m tests.kit.fake_cli '{option}' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a short-named directory of the test's own, removed in the end."""
    path = Path(tempfile.mkdtemp(prefix="sc-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing of this machine's environment but where programs are."""
    for name in set(os.environ) - {"PATH", "LANG", "TMPDIR", "PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
