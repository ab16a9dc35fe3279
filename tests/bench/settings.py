"""How the benches run a CLI: hermetic, fake or real."""

from pathlib import Path

from scuba.harness.claude.settings import ClaudeSettings
from tests.kit.claude_env import fake_cli, hermetic_env


def fake_settings(place: Path) -> ClaudeSettings:
    """Return settings that run the fake CLI."""
    return _settings(place, "http://127.0.0.1:9", fake_cli(place))


def real_settings(place: Path, base_url: str) -> ClaudeSettings:
    """Return settings that run the real CLI against a scripted model."""
    return _settings(place, base_url, None)


def _settings(place: Path, base_url: str, cli: Path | None) -> ClaudeSettings:
    work = place / "work"
    work.mkdir(exist_ok=True)
    return ClaudeSettings(
        cwd=work,
        state_dir=place / "state",
        model="claude-sonnet-5",
        cli_path=cli,
        env=hermetic_env(place, base_url),
        use_login=False,
    )
