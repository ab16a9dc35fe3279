"""Settings: every mistake is named at once, and nothing else ever comes out of a bad file."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scuba import mistakes
from scuba.errors import ConfigError
from scuba.settings import (
    Bubble,
    Claude,
    Settings,
    TokenRef,
    bot_state_dir,
    load_settings,
    resolve_token,
)

TOKEN = "bubble_agent_Zm9vYmFyYmF6cXV4"
GOOD: dict[str, Any] = {
    "bubble": {
        "url": "https://bubble.example.com",
        "principalId": "bot-research",
        "token": {"env": "BOT_RESEARCH_TOKEN"},
    }
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)
NAMES = [
    *("bubble", "claude", "logger", "backlog", "interrupt", "stateDir"),
    *("url", "principalId", "token", "env", "file", "allowInsecure", "maxReplay", "cwd"),
]
CONFIGS = st.dictionaries(
    st.sampled_from(NAMES), JSON | st.dictionaries(st.sampled_from(NAMES), JSON), max_size=6
)


def written(folder: Path, content: object) -> Path:
    path = folder / "claude-scuba.config.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def wrong(folder: Path, content: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(written(folder, content))
    assert caught.value.exit_code == 78
    return caught.value.what


def with_bubble(**changes: object) -> dict[str, Any]:
    return {"bubble": {**GOOD["bubble"], **changes}}


def test_the_seeds_example_is_enough(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, GOOD))

    assert settings.bubble.url == "https://bubble.example.com"
    assert settings.bubble.token == TokenRef(env="BOT_RESEARCH_TOKEN")
    assert settings.claude == Claude()
    assert settings.claude.setting_sources == ("project",)
    assert settings.backlog.max_replay == 50
    assert settings.interrupt.cooperative_seconds == 10
    assert settings.interrupt.drain_seconds == 8


@pytest.mark.parametrize("value", [600, 600.0, None])
def test_a_limit_may_be_a_whole_number_or_none(tmp_path: Path, value: float | None) -> None:
    settings = load_settings(written(tmp_path, {**GOOD, "approvals": {"expirySeconds": value}}))

    assert settings.approvals.expiry_seconds == value


@pytest.mark.parametrize(("value", "why"), [(0, "more than 0"), ("10m", "number"), (True, "true")])
def test_a_limit_that_is_none_is_a_mistake(tmp_path: Path, value: object, why: str) -> None:
    said = wrong(tmp_path, {**GOOD, "approvals": {"expirySeconds": value}})

    assert "approvals.expirySeconds: must be " in said
    assert why in said


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    """Field case 11.2: a typo, a wrong type, a number and a word out of range, at once."""
    said = wrong(
        tmp_path,
        {
            "bubble": {"url": "https://b.example", "principalID": 7, "token": ""},
            "backlogg": {},
            "backlog": {"maxReplay": -1},
            "interrupt": {"cooperativeSeconds": "long", "drainSeconds": 0},
            "claude": {"permissionMode": "acceptedits", "settingSources": ["project", 3]},
            "logger": [],
        },
    )

    assert said.splitlines()[1:] == [
        "  bubble.principalID: is not known; did you mean principalId?",
        "  bubble.principalId: is missing",
        "  backlogg: is not known; did you mean backlog?",
        "  backlog.maxReplay: must be at least 0, not -1",
        "  interrupt.cooperativeSeconds: must be a number, not a text",
        "  interrupt.drainSeconds: must be more than 0, not 0",
        '  claude.permissionMode: "acceptedits" is not one of acceptEdits, bypassPermissions,'
        " default, dontAsk, plan; did you mean acceptEdits?",
        "  claude.settingSources[1]: must be one of local, project, user, not 3",
        "  logger: must be an object, not a list",
        "  bubble.token: is empty",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"null", "must be an object, not null"),
        (b"[]", "must be an object, not a list"),
        (b'"x"', "must be an object, not a text"),
        (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), "begins with a byte order mark"),
        (b'{"bubble": 1,}', "trailing comma before line 1, column 14"),
        (b'{"claude": [1,]}', "trailing comma before line 1, column 15"),
        (b'{"bubble": 1 // one\n}', "has a comment at line 1, column 14"),
        (b'{"bubble": 1', "is not JSON"),
        (b'{"logger": {}, "logger": {}}', '"logger" stands twice'),
        (b'{"bubble": NaN}', "NaN is not JSON"),
        (b'{"bubble": "\xff"}', "is not UTF-8 at byte 12"),
        (b"[" * 100_000, "is nested too deeply"),
        (b'{"bubble": ' + b"9" * 10_000 + b"}", "holds a number that is too long"),
        (b'{"stateDir": "\\ud800"}', "stateDir: holds U+0000 or half of a surrogate pair"),
    ],
)
def test_a_file_that_is_badly_written_says_how(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    """Field case 11.2: a byte order mark, a trailing comma, and their kin."""
    assert expected in wrong(tmp_path, content)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("bubble.example.com", "must begin with https://"),
        ("ftp://x", "must begin with https://"),
        ("https://", "must begin with https://"),
        ("https://u:hidden-word@x", "must not hold a user name or password"),
        ("https://x/?a=1", "must not have a query"),
        ("https://x/#", "must not have a query or a fragment"),
        ("https://x y", "must be plain ASCII without spaces"),
        ("https://x:hidden-word", "is not a URL"),
        ("https://[", "is not a URL"),
        ("http://bubble.example.com", "use https, or set allowInsecure"),
        ("  ", "is empty"),
    ],
)
def test_a_bad_address_is_named_and_not_repeated(tmp_path: Path, url: str, expected: str) -> None:
    said = wrong(tmp_path, with_bubble(url=url))

    assert f"bubble.url: {expected}" in said or (
        said.splitlines()[1].startswith("  bubble.url") and expected in said
    )
    assert "hidden-word" not in said


@pytest.mark.parametrize("url", ["http://localhost:1/p", "http://127.0.0.1", "http://[::1]:8"])
def test_plain_http_is_for_this_machine(tmp_path: Path, url: str) -> None:
    assert load_settings(written(tmp_path, with_bubble(url=url))).bubble.url == url


def test_plain_http_elsewhere_must_be_asked_for(tmp_path: Path) -> None:
    load_settings(written(tmp_path, with_bubble(url="http://b.example", allowInsecure=True)))


@pytest.mark.parametrize(
    "token", [{}, {"env": None}, {"env": "A", "file": "b"}, {"env": "A", "fil": "b"}, {"env": ""}]
)
def test_a_token_has_one_source(tmp_path: Path, token: object) -> None:
    assert "bubble.token" in wrong(tmp_path, with_bubble(token=token))


def test_paths_are_read_from_the_files_own_folder(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    content = with_bubble(token={"file": "secrets/../token"})
    content |= {"stateDir": "~/state", "claude": {"cwd": "work"}}
    settings = load_settings(written(tmp_path, content), {"HOME": "/home/ada"})

    assert settings.bubble.token == TokenRef(file=str(tmp_path / "token"))
    assert settings.claude.cwd == str(tmp_path / "work")
    assert bot_state_dir(settings, {}) == Path("/home/ada/state")


def test_the_state_of_each_bot_has_its_own_folder(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, with_bubble(url="http://localhost:7437/x")))

    assert bot_state_dir(settings, {"XDG_STATE_HOME": "/s"}) == Path(
        "/s/scuba/bot-research@localhost_7437"
    )
    assert bot_state_dir(settings, {"HOME": "/h", "XDG_STATE_HOME": "relative"}).is_relative_to(
        "/h/.local/state/scuba"
    )


@pytest.mark.parametrize("key", ["cwd", "cliPath"])
def test_a_missing_path_is_named_with_its_setting(tmp_path: Path, key: str) -> None:
    """Field case 10.7."""
    said = wrong(tmp_path, {**GOOD, "claude": {key: "not-there"}})

    assert f"claude.{key}: {tmp_path / 'not-there'} does not exist" in said


def test_a_path_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    """Field case 10.7: a file for a directory, a directory and a plain file for a program."""
    (tmp_path / "file").touch()
    said = wrong(tmp_path, {**GOOD, "claude": {"cwd": "file", "cliPath": "file"}})

    assert f"claude.cwd: {tmp_path / 'file'} is not a directory" in said
    assert f"claude.cliPath: {tmp_path / 'file'} is not executable" in said
    assert "is not a file" in wrong(tmp_path, {**GOOD, "claude": {"cliPath": "."}})


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\0"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        load_settings(tmp_path / name)


@given(st.binary(max_size=60) | JSON | CONFIGS)
@example({"bubble": {"url": "http://[::1", "principalId": "a\n", "token": "x" * 9}})
@example({"bubble": {"url": "https://x:٣", "principalId": "a", "token": {"file": "\0"}}})
@example({"bubble": {**GOOD["bubble"]}, "claude": {"cwd": "\0"}})
@example({"bubble": {**GOOD["bubble"]}, "stateDir": "a" * 5000})
@example({"bubble": {**GOOD["bubble"]}, "claude": {"cwd": "a" * 5000, "cliPath": "b" * 5000}})
def test_rubbish_is_always_a_config_error(content: object) -> None:
    """Field case 11.2: whatever stands in the file, it is settings or one clear error."""
    with TemporaryDirectory() as folder:
        try:
            load_settings(written(Path(folder), content))
        except ConfigError as error:
            said = error.what
        else:
            return

    assert said.startswith("the configuration ")
    assert "\n  " in said


@given(JSON | CONFIGS)
def test_what_has_no_mistake_is_taken(value: object) -> None:
    """The walk and msgspec agree: what one lets through, the other takes."""
    raw = json.dumps(value).encode()
    parsed, found = mistakes.parse(raw)
    if not found and not mistakes.against(parsed, Settings):
        msgspec.convert(parsed, Settings)


# --- the token (field case 11.1) ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "is not set"),
        ({"BOT_TOKEN": ""}, "is empty"),
        ({"BOT_TOKEN": "  \t "}, "is empty"),
        ({"BOT_TOKEN": "sh-rt"}, "too short"),
        ({"BOT_TOKEN": "two words here"}, "spaces or characters"),
        ({"BOT_TOKEN": "töken-with-umlaut"}, "spaces or characters"),
    ],
)
def test_a_bad_variable_is_named(environ: dict[str, str], expected: str) -> None:
    """Field case 11.1: unset, empty, only spaces; and the value is not shown."""
    with pytest.raises(ConfigError, match=f"environment variable BOT_TOKEN .*{expected}") as caught:
        resolve_token(TokenRef(env="BOT_TOKEN"), environ)

    assert caught.value.exit_code == 78
    value = environ.get("BOT_TOKEN", "").strip()
    assert not value or value not in caught.value.what


@pytest.mark.parametrize("content", ["", "\n", "  \n\n"])
def test_an_empty_token_file_is_named(tmp_path: Path, content: str) -> None:
    """Field case 11.1."""
    (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=f"{tmp_path / 'token'} is empty"):
        resolve_token(TokenRef(file=str(tmp_path / "token")), {})


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the token file {tmp_path / 'none'}"):
        resolve_token(TokenRef(file=str(tmp_path / "none")), {})


def test_the_newline_is_trimmed(tmp_path: Path) -> None:
    """Field case 11.1: wherever the token is from."""
    (tmp_path / "token").write_text(f"{TOKEN}\r\n")

    assert resolve_token(TokenRef(file=str(tmp_path / "token")), {}) == TOKEN
    assert resolve_token(TokenRef(env="T"), {"T": f" {TOKEN}\n"}) == TOKEN
    assert resolve_token(f"{TOKEN}\n", {}) == TOKEN


def test_settings_do_not_show_what_is_secret(tmp_path: Path) -> None:
    """Field case 12.1: a dump of the settings."""
    content = {**with_bubble(token=TOKEN), "claude": {"env": {"ANTHROPIC_API_KEY": "sk-very-own"}}}
    settings = load_settings(written(tmp_path, content))

    assert settings.bubble.token == TOKEN
    for shown in (repr(settings), str(settings), f"{settings}", f"{settings.claude!r}"):
        assert TOKEN not in shown
        assert "sk-very-own" not in shown
    assert all(TOKEN not in repr(pair) for pair in settings.bubble.__rich_repr__())
    assert Bubble(url="u", principal_id="p", token=TOKEN) == Bubble(
        url="u", principal_id="p", token=TOKEN
    )


def test_a_mistake_does_not_show_a_token(tmp_path: Path) -> None:
    """Field case 12.1: a token where something else belongs."""
    said = wrong(tmp_path, with_bubble(token=[TOKEN], allowInsecure=TOKEN, url=TOKEN))

    assert TOKEN not in said


# --- Claude Code, for every thread and for single ones -----------------------------------------


def with_claude(claude: object, **threads: object) -> dict[str, Any]:
    return {**GOOD, "claude": claude, "threads": threads}


def test_a_thread_has_what_it_is_told_over_what_all_are_told(tmp_path: Path) -> None:
    """Objects are merged, lists and values replaced; other threads have nothing of it."""
    (tmp_path / "there").mkdir()
    every = {"model": "m", "deny": ["Bash"], "env": {"A": "1", "B": "2"}, "sandbox": {}}
    one: dict[str, Any] = {"model": None, "deny": [], "env": {"B": "3"}, "cwd": "there"}
    settings = load_settings(written(tmp_path, with_claude(every, thr_1=one)))

    assert settings.claude == Claude(model="m", deny=("Bash",), env={"A": "1", "B": "2"})
    assert settings.threads == {
        "thr_1": Claude(env={"A": "1", "B": "3"}, cwd=str(tmp_path / "there"))
    }


def test_a_mistake_on_a_thread_is_named_with_the_thread(tmp_path: Path) -> None:
    """Field case 11.2: and what is wrong for all is not repeated for each."""
    said = wrong(
        tmp_path,
        with_claude(
            {"cwd": "gone", "plugins": ["gone-too"]},
            thr_1={"modle": "m", "effort": "hihg"},
            thr_2={"cliPath": "none", "permissionMode": "bypassPermissions"},
        ),
    )

    assert [line.partition(": ")[::2] for line in said.splitlines()[1:]] == [
        ("  threads.thr_1.modle", "is not known; did you mean model?"),
        (
            "  threads.thr_1.effort",
            '"hihg" is not one of high, low, max, medium, xhigh; did you mean high?',
        ),
        ("  claude.cwd", f"{tmp_path}/gone does not exist"),
        ("  claude.plugins[0]", f"{tmp_path}/gone-too does not exist"),
        ("  threads.thr_2.cliPath", f"{tmp_path}/none does not exist"),
        (
            "  threads.thr_2.permissionMode",
            "bypassPermissions lets every tool run unasked; "
            "set allowDangerousBypass to true if that is what you want",
        ),
    ]


def test_to_ask_nobody_takes_two_words(tmp_path: Path) -> None:
    allowed = {"permissionMode": "bypassPermissions", "allowDangerousBypass": True}
    settings = load_settings(written(tmp_path, with_claude(allowed)))

    assert settings.claude.permission_mode == "bypassPermissions"
    assert "allowDangerousBypass" in wrong(
        tmp_path, with_claude({"permissionMode": "bypassPermissions"})
    )
    assert "threads.thr_1.permissionMode" in wrong(
        tmp_path, with_claude(allowed, thr_1={"allowDangerousBypass": False})
    )


@pytest.mark.parametrize(
    ("claude", "expected"),
    [
        ({"allow": ["Bash(git *"]}, "claude.allow[0]: "),
        ({"model": "m", "fallbackModel": "m"}, "claude.fallbackModel: is the model itself"),
        (
            {"thinking": "none"},
            'claude.thinking: must be "adaptive" or "disabled" or a whole number, not a text',
        ),
        ({"thinking": 5}, "claude.thinking: must be at least 1024, not 5"),
        ({"maxBudgetUsd": 0}, "claude.maxBudgetUsd: must be more than 0, not 0"),
        ({"maxTurns": 0}, "claude.maxTurns: must be at least 1, not 0"),
        ({"skills": "some"}, 'claude.skills: must be "all" or a list, not a text'),
        ({"agents": {"rev": {"prompt": "p"}}}, "claude.agents.rev.description: is missing"),
        ({"mcpServers": {"s": {}}}, "claude.mcpServers.s.command: is missing; stdio needs it"),
        (
            {"mcpServers": {"s": {"type": "http", "command": "x"}}},
            "claude.mcpServers.s.command: has no meaning for http",
        ),
        (
            {"mcpServers": {"s": {"type": "sse", "url": "ftp://x"}}},
            "claude.mcpServers.s.url: must begin with https://",
        ),
        ({"sandbox": {"enabeld": True}}, "did you mean enabled?"),
    ],
)
def test_what_claude_code_would_not_take_is_told_before_it_is_started(
    tmp_path: Path, claude: object, expected: str
) -> None:
    assert expected in wrong(tmp_path, with_claude(claude))


def test_where_a_token_is_needed_a_missing_one_is_told_with_all_else(tmp_path: Path) -> None:
    """Field cases 11.1 and 11.2."""
    path = written(tmp_path, {**GOOD, "backlogg": {}})
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {}, needs_token=True)

    assert "backlogg: is not known; did you mean backlog?" in caught.value.what
    assert "the environment variable BOT_RESEARCH_TOKEN is not set" in caught.value.what
    load_settings(written(tmp_path, GOOD), {"BOT_RESEARCH_TOKEN": TOKEN}, needs_token=True)


def test_headers_and_variables_of_mcp_servers_are_not_shown(tmp_path: Path) -> None:
    """Field case 12.1."""
    servers = {
        "a": {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer own"}},
        "b": {"command": "x", "env": {"KEY": "very-own"}},
    }
    settings = load_settings(written(tmp_path, with_claude({"mcpServers": servers}, thr_1={})))

    assert "own" not in repr(settings)
    assert dict(settings.claude.given()) == {"Authorization": "Bearer own", "KEY": "very-own"}
