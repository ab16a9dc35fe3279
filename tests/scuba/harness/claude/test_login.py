"""A login is lent to a thread: all of it, nothing beside it, and a bad file stops nobody."""

import json
import logging
from pathlib import Path

import pytest

from scuba.harness.claude.login import Login, find_login, lend

SETTINGS = {
    "env": {"ANTHROPIC_BASE_URL": "https://proxy.example", "CLAUDECODE": "1"},
    "apiKeyHelper": "print-key",
    "hooks": {"Stop": []},
    "permissions": {"allow": ["Bash"]},
}
STATE = {"primaryApiKey": "made-up", "oauthAccount": {"id": 1}, "projects": {"/x": {}}}


@pytest.fixture
def person(tmp_path: Path) -> Path:
    """The home of somebody who is logged in."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(SETTINGS))
    (tmp_path / ".claude.json").write_text(json.dumps(STATE))
    return tmp_path


def test_the_persons_login_is_found_and_nothing_else_of_theirs(person: Path) -> None:
    assert find_login({"HOME": str(person)}) == Login(
        storage_dir="",
        env={"ANTHROPIC_BASE_URL": "https://proxy.example"},
        settings={"apiKeyHelper": "print-key"},
        state={"primaryApiKey": "made-up", "oauthAccount": {"id": 1}},
    )


def test_a_chosen_configuration_directory_is_the_place_of_everything(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text(json.dumps(STATE))
    login = find_login({"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": str(tmp_path)})

    assert login.storage_dir == str(tmp_path)
    assert login.state["primaryApiKey"] == "made-up"


def test_nobody_logged_in_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert find_login({"HOME": str(tmp_path)}) == Login(storage_dir="")
    assert caplog.records == []


BROKEN: dict[str, bytes | None] = {
    "a directory": None,
    "malformed": b"{ not json",
    "no object": b"[1]",
    "no text": b"\xff\xfe",
    "too deep": b"[" * 100_000,
    "null": b"null",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_each_broken_file_gives_one_warning(
    person: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    """Field case 11.4."""
    path = person / ".claude" / "settings.json"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    login = find_login({"HOME": str(person)})

    assert (login.env, login.settings) == ({}, {})
    assert login.state["primaryApiKey"] == "made-up"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_only_text_of_an_env_block_is_used(person: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Field case 11.4."""
    env = {"A": "text", "B": 1, "C": None, "D": {"E": "F"}}
    (person / ".claude" / "settings.json").write_text(json.dumps({"env": env}))

    assert find_login({"HOME": str(person)}).env == {"A": "text"}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_byte_order_mark_is_no_fault(person: Path) -> None:
    path = person / ".claude" / "settings.json"
    path.write_text("\ufeff" + path.read_text())

    assert find_login({"HOME": str(person)}).settings == {"apiKeyHelper": "print-key"}


def test_lending_keeps_what_the_thread_has_and_is_taken_back(tmp_path: Path) -> None:
    own = tmp_path / "thread" / ".claude.json"
    login = Login(storage_dir="", state={"primaryApiKey": "k"}, settings={"apiKeyHelper": "h"})

    lent = lend(login, tmp_path / "thread")
    assert lent is not None
    assert json.loads(lent.read_text()) == {"apiKeyHelper": "h"}
    own.write_text(json.dumps({**json.loads(own.read_text()), "numStartups": 3}))

    assert lend(None, tmp_path / "thread") is None
    assert json.loads(own.read_text()) == {"numStartups": 3}
    assert not lent.exists()


def test_nobody_else_can_read_what_was_lent(tmp_path: Path) -> None:
    login = Login(storage_dir="", state={"primaryApiKey": "k"}, settings={"apiKeyHelper": "h"})
    lend(login, tmp_path / "thread")

    assert (tmp_path / "thread").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "thread").iterdir())
