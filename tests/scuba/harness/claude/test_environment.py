"""What a CLI inherits: the person's own, and nothing of ours or of a parent agent."""

import os
from pathlib import Path

import pytest

from scuba.harness.claude.environment import (
    KEPT,
    PROTOCOL,
    QUIET,
    child_environment,
    is_marker,
    scrub_environment,
)
from scuba.harness.claude.settings import ClaudeSettings

PLACE = Path("/srv")


def child(
    inherited: dict[str, str],
    *,
    person: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    withheld: frozenset[str] = frozenset(),
    use_login: bool = True,
) -> dict[str, str]:
    settings = ClaudeSettings(
        cwd=PLACE, state_dir=PLACE, env=env or {}, withheld=withheld, use_login=use_login
    )
    return child_environment(
        settings,
        inherited,
        from_person=person or {},
        config_dir=PLACE / "config",
        storage_dir="",
        temp_dir=PLACE / "tmp",
        tag="tag",
    )


OURS = {
    *QUIET,
    *PROTOCOL,
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
    "PWD",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "SCUBA_SESSION",
}

MARKERS = {
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CODEX_CI",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_THREAD_ID",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
    "TRACEPARENT",
    "TRACESTATE",
}


def test_markers_of_a_parent_agent_are_removed() -> None:
    """Field case 11.3: exactly these of what a parent sets, and nothing else."""
    others = {"PATH": "/bin", "HOME": "/h", "EDITOR": "vi", "ANTHROPIC_API_KEY": "k"}
    given = dict.fromkeys(MARKERS, "1") | others
    env = child(given)

    assert {name: value for name, value in env.items() if name not in OURS} == others


def test_what_a_person_sets_for_every_session_stays() -> None:
    """Field case 11.3: a login or a service is no marker."""
    env = child(dict.fromkeys(KEPT, "1"))

    assert env.keys() - OURS == KEPT
    assert not any(is_marker(name) for name in ("ANTHROPIC_BASE_URL", "AWS_PROFILE", "PATH"))


def test_our_token_reaches_no_child_by_any_way() -> None:
    token = {"BUBBLE_TOKEN": "secret"}
    env = child(token, person=token, env=token, withheld=frozenset(token))

    assert "secret" not in env.values()


def test_scrubbing_takes_it_from_this_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUBBLE_TOKEN", "secret")

    assert scrub_environment(["BUBBLE_TOKEN", "NOT_THERE"]) == {"BUBBLE_TOKEN": "secret"}
    assert "BUBBLE_TOKEN" not in os.environ


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_an_empty_placeholder_hides_no_real_value(empty: str) -> None:
    """Field case 11.1."""
    env = child(
        {"ANTHROPIC_API_KEY": "real"},
        person={"ANTHROPIC_API_KEY": empty, "A": empty},
        env={"ANTHROPIC_API_KEY": empty},
    )

    assert env["ANTHROPIC_API_KEY"] == "real"
    assert env["A"] == empty


def test_settings_win_over_the_person_and_the_person_over_the_daemon() -> None:
    env = child({"A": "1", "B": "1", "C": "1"}, person={"B": "2", "C": "2"}, env={"C": "3"})

    assert (env["A"], env["B"], env["C"]) == ("1", "2", "3")


def test_nobody_can_switch_off_what_the_bridge_rests_on() -> None:
    env = child({}, env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "0", "TMPDIR": "/else"})

    assert env["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"] == "1"
    assert env["DISABLE_TELEMETRY"] == "1"
    assert env["TMPDIR"] == env["XDG_RUNTIME_DIR"] == "/srv/tmp"
    assert env["SCUBA_SESSION"] == "tag"


def test_without_the_login_no_credential_is_inherited() -> None:
    secrets = {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_AUTH_TOKEN": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "CLAUDE_CODE_OAUTH_TOKEN": "k",
        "CLAUDE_CODE_USE_BEDROCK": "1",
    }
    env = child(secrets, env={"ANTHROPIC_API_KEY": "scripted"}, use_login=False)

    assert env.keys() & secrets.keys() == {"ANTHROPIC_API_KEY"}
    assert env["ANTHROPIC_API_KEY"] == "scripted"


@pytest.mark.parametrize("thread_id", ["thr_1", "..", ".", "../../etc", "/etc", "a.sub-x", "ä b"])
def test_a_thread_has_its_directory_below_the_state_whatever_its_name(thread_id: str) -> None:
    settings = ClaudeSettings(cwd=PLACE, state_dir=PLACE / "state")
    folder = Path(os.path.normpath(settings.thread_dir(thread_id)))

    assert folder.parent == PLACE / "state" / "claude"
